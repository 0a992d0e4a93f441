"""Files that are only type-checked: what an author writes is inferred end to end."""
