"""Metrics and their text format; independent of runs."""
