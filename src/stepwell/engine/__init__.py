"""Verbs on nouns: what a caller may ask. No loops here."""
