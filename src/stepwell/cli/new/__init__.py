"""A first project: three files that run without changes."""
