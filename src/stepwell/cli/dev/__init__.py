"""`stepwell dev`: a supervisor that tells what happens, and a worker beside it that may be killed at any time."""
