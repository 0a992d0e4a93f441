"""Whether code may change under running work: recorded runs as files, their dry replay, and findings about code."""
