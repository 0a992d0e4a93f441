"""Well-known samples of other engines, written with stepwell."""
