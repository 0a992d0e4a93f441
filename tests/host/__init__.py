"""What the process around an engine does: its loops, threads, forks, shells, signals, interpreters."""
