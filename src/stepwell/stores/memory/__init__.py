"""The contract over dicts: the executable specification, and the fast store for tests and simulation."""
