"""The command line: thin surfaces over the engine."""
