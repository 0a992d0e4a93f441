"""`stepwell dev`: a supervisor that prints what happens, and a worker process that may be killed at any time."""
