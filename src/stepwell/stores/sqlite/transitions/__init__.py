"""Transitions: each is a function of a transaction, so its decision and its writes cannot be separated."""
