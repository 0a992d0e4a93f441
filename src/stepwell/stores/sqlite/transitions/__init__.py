"""Transitions: each is a function of a transaction; what it decides and what it writes cannot be parted."""
