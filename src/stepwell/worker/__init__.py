"""Executes turns: claims runs, drives their code, and commits the results."""
