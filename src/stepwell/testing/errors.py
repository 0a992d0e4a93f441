"""How a test of a workflow fails: assertions, so that every test runner knows them."""

from __future__ import annotations


class Stuck(AssertionError):  # noqa: N818  the run's state, not a mistake of the kit
    """A run can never do what the test waits for. The text says why, and shows the run."""


class Diverged(AssertionError):  # noqa: N818
    """The code did something else when it was replayed: it depends on what no step recorded."""


class CrashFound(AssertionError):  # noqa: N818
    """A crash at one of the commits changed what came of a workflow, or what it did to the world."""


class KitClosedError(RuntimeError):
    """A kit was used after its test."""
