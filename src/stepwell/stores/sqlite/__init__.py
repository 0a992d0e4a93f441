"""Runs in one SQLite file: one writer per process with group commit, any number of processes."""
