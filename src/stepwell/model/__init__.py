"""Nouns: pure data and state tables. No I/O, no async, no imports from above."""
