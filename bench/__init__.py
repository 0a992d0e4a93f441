"""Benchmarks: every figure from one run on one machine, as ratios and counts rather than seconds where possible."""
