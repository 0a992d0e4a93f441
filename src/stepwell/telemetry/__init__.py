"""What is counted and measured, and how others read it; knows nothing of runs."""
