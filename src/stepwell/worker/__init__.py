"""Executes turns: claims runs, drives their code, commits what it did."""
