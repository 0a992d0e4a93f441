"""Terminal sessions: a real program in a pseudo-terminal, what it shows, and a picture of that."""
