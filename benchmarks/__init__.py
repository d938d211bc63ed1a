"""Measurements against other libraries, each in a process of its own."""
