"""Failures of workflow tests. They are assertions, so every test runner reports them as failures."""

from __future__ import annotations


class Stuck(AssertionError):  # noqa: N818  the run's state, not a mistake of the kit
    """A run can never reach what the test waits for. The message gives the reason and shows the run."""


class Diverged(AssertionError):  # noqa: N818
    """A replay of the code took another path: the code depends on something that no step recorded."""


class CrashFound(AssertionError):  # noqa: N818
    """A crash at one of the commits changed the result of a workflow, or its effects on the outside world."""


class KitClosedError(RuntimeError):
    """A kit was used after its test."""
