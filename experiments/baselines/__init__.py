"""Published baselines, one a file: python -m experiments.results."""
