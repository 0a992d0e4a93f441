"""The first project: three files that work as they are."""
