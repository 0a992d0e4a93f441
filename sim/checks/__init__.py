"""The invariants of chapter 6, each named where it is checked."""
