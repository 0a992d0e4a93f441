"""The programs of `examples/`, run as programs and in virtual time."""
