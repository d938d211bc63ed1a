"""Pipelines of stages, one a file: python -m launch.pipeline --config=FILE."""
