"""The public API does what the model does. The whole campaign is `make model`."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.desk import ModelDesk
from tests.model.machine import DeskMachine

SHORT = settings(max_examples=60, stateful_step_count=20, deadline=None, derandomize=True)


def test_the_engine_does_what_the_model_does() -> None:
    run_state_machine_as_test(DeskMachine, settings=SHORT)


class NeverUndone(ModelDesk):
    """A cancelled run keeps its booking."""

    def cancel(self, run_id: str) -> bool:
        if self.runs[run_id].is_active:
            self._end(self.runs[run_id], "completed")
            return True
        return False


class WrongMachine(DeskMachine):
    """Compares with a wrong model."""

    def __init__(self) -> None:
        super().__init__(NeverUndone())


def test_a_difference_is_found() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(WrongMachine, settings=settings(SHORT, phases=[Phase.generate]))
