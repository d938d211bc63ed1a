"""Verifiers and rewards, on the host: text and numbers in, numbers out."""
