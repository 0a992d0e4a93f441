"""Recorded failures as exceptions again, from a closed registry."""

from __future__ import annotations

import builtins

import pytest

from stepwell.errors import (
    ChildFailed,
    JoinError,
    RaceError,
    RecordedError,
    StepFailed,
    StepwellError,
    WaitTimeout,
)
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.replay.revival import register_types, revive, step_failed

BUILTINS = [
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration, ExceptionGroup))
]


def stored(error: Exception) -> StepwellError:
    """What comes back of an error that was written and read."""
    return revive(decode_failure(encode_failure(record_failure(error, path="a/b"))))


@pytest.mark.parametrize("kind", BUILTINS, ids=lambda kind: kind.__name__)
def test_every_builtin_error_is_caught_by_its_own_name(kind: type[Exception]) -> None:
    needs = {
        "UnicodeDecodeError": ("utf-8", b"x", 0, 1, "bad"),
        "UnicodeEncodeError": ("utf-8", "x", 0, 1, "bad"),
        "UnicodeTranslateError": ("x", 0, 1, "bad"),
    }
    error = kind(*needs.get(kind.__name__, ("words",)))
    revived = step_failed("a/b", record_failure(error), 2)

    assert isinstance(revived, kind)
    assert isinstance(revived, StepFailed)
    assert (revived.path, revived.attempts) == ("a/b", 2)
    assert str(revived).startswith(f"SW451  step a/b failed after 2 attempts: {kind.__name__}")


class Unlisted(Exception):
    pass


class Listed(Exception):
    pass


def test_only_listed_types_come_back() -> None:
    register_types([Listed])

    assert isinstance(stored(Listed("x")), Listed)
    assert not isinstance(stored(Unlisted("x")), Unlisted)
    assert isinstance(stored(Unlisted("x")), RecordedError)


def test_our_own_errors_come_back_with_their_parts() -> None:
    step = StepFailed("s", record_failure(KeyError("k")), 3)
    join = JoinError("j", {"x": step, "y": RaceError("j/y/r", {"z": WaitTimeout("j/y/r/z/m")})})
    revived = stored(join)

    assert isinstance(revived, JoinError)
    assert list(revived.errors) == ["x", "y"]
    inner = revived.errors["x"]
    assert isinstance(inner, StepFailed)
    assert isinstance(inner, KeyError)
    assert inner.attempts == 3
    race = revived.errors["y"]
    assert isinstance(race, RaceError)
    assert isinstance(race.errors["z"], WaitTimeout)

    child = stored(ChildFailed("c", "run-7", "cancelled", None))
    assert isinstance(child, ChildFailed)
    assert (child.run_id, child.status, child.failure) == ("run-7", "cancelled", None)


def test_a_revived_error_is_recorded_as_what_it_was() -> None:
    once = stored(KeyError("k"))
    twice = stored(once)

    assert str(once) == str(twice)
    assert isinstance(twice, KeyError)
