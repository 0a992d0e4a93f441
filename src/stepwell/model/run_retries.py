"""Retries of whole runs: the policy of a start, which attempt a run is, and when the next one begins.

An attempt is a run. One that fails and is tried again ends as continued, with its failure, and its successor is the
next attempt: so everything that follows a chain of runs follows attempts, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

import msgspec

from stepwell.clock import SECOND, Instant, Span, span
from stepwell.errors import (
    ChildFailed,
    DefinitionError,
    Failure,
    Fatal,
    InvalidInputError,
    InvalidOptionError,
    RecordedError,
    RetryAfter,
    Rollback,
    StepFailed,
)
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.retries import Retry
from stepwell.model.runs import Previous, Run
from stepwell.model.starts import check_options

_ERROR_MAX: Final = 300  # characters that are kept of the failure of the attempt before
_RETRY_AFTER: Final = f"{RetryAfter.__module__}.{RetryAfter.__qualname__}"
# The same input would fail in the same way, or the author wants no further attempt.
_FINAL: Final = (Fatal, Failure, Rollback, DefinitionError, InvalidInputError)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _names_below(kinds: Iterable[type]) -> Iterator[str]:
    for kind in kinds:
        yield _name_of(kind)
        yield from _names_below(kind.__subclasses__())


_FINAL_NAMES: Final = frozenset(_names_below(_FINAL))


class RunPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `Retry` as data: types of exceptions by module and name, and times in microseconds."""

    max_attempts: int | None = 3
    initial: int = 100_000
    factor: float = 2.0
    max_delay: int = 30 * SECOND
    jitter: float = 0.1
    retry_on: tuple[str, ...] | None = None
    give_up_on: tuple[str, ...] = ()

    @classmethod
    def of(cls, retry: Retry, where: str) -> RunPolicy:
        """The policy of a start. Raises `InvalidOptionError` if it has a function, which cannot be stored."""
        if callable(retry.retry_on) or retry.delay is not None:
            name = "delay" if retry.delay is not None else "retry_on"
            raise InvalidOptionError(
                f"{name} of the retry policy is a function",
                where=where,
                why="the policy of a start is stored with the run, and a function cannot be stored",
                fix=f"give types of exceptions, or write the policy in the code: @workflow(retry=Retry({name}=...))",
            )
        return cls(
            retry.max_attempts,
            span(retry.initial),
            retry.factor,
            span(retry.max_delay),
            retry.jitter,
            None if retry.retry_on is None else tuple(map(_name_of, retry.retry_on)),
            tuple(map(_name_of, retry.give_up_on)),
        )

    @property
    def retry(self) -> Retry:
        """The same as a `Retry`, for its arithmetic. The types of exceptions are left out."""
        return Retry(
            max_attempts=self.max_attempts,
            initial=self.initial / SECOND,
            factor=self.factor,
            max_delay=self.max_delay / SECOND,
            jitter=self.jitter,
        )


class RunRetry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored with a run about its attempts. The first attempt of a run without a policy of its own stores
    nothing: its workflow may have one.
    """

    attempt: int = 1
    policy: RunPolicy | None = None  # of the start; None: that of the workflow
    limit: int | None = None  # how many attempts there may be, when this one was planned
    failed: str = ""  # the run of the attempt before ...
    error: str = ""  # ... and why it failed
    previous: tuple[str, int, int] | None = None  # what the first attempt continued

    @property
    def stored(self) -> str:
        """As it is stored."""
        return msgspec.json.encode(self).decode()

    def following(self, run: Run, limit: int | None, failure: FailureRecord) -> RunRetry:
        """What is stored with the next attempt."""
        own = run.previous
        before = None if own is None else (own.run_id, own.started_at, own.finished_at)
        return RunRetry(
            self.attempt + 1,
            self.policy,
            limit,
            run.run_id,
            failure.summary[:_ERROR_MAX],
            before if self.attempt == 1 else self.previous,
        )


_DECODER = msgspec.json.Decoder(RunRetry)
_FIRST: Final = RunRetry()


def retry_of(run: Run) -> RunRetry:
    """What is stored with a run about its attempts."""
    return _FIRST if run.retry is None else _DECODER.decode(run.retry)


def first_attempt(stored: str | None) -> str | None:
    """What a run stores that has the same policy, and is a first attempt: a run that continues as new, or a fork."""
    if stored is None:
        return None
    policy = _DECODER.decode(stored).policy
    return None if policy is None else RunRetry(policy=policy).stored


def read_retry(retry: Any, where: str) -> str:
    """The policy of a start as it is stored. Raises `InvalidOptionError` unless it is a `Retry`, or its fields."""
    if isinstance(retry, Mapping):
        check_options(retry, (one.name for one in fields(Retry)), "retry")
        retry = Retry(**retry)
    if not isinstance(retry, Retry):
        raise InvalidOptionError(
            f"retry is {retry!r:.80}",
            where=where,
            why="it says how often the whole run is tried, and how long to wait in between",
            fix='retry=Retry(max_attempts=5, initial="1m")',
        )
    return RunRetry(policy=RunPolicy.of(retry, where)).stored


def previous_of(run: Run) -> Previous | None:
    """The run that this one continues: that of its first attempt, because a failed attempt has not done its work."""
    own = None if run.retry is None else retry_of(run)
    if own is None or own.attempt == 1:
        return run.previous
    if own.previous is None:
        return None
    run_id, started_at, finished_at = own.previous
    return Previous(RunId(run_id), Instant(started_at), Instant(finished_at))


def delay_of_next(
    own: Retry | None, run: Run, error: BaseException, failure: FailureRecord, chance: float
) -> Span | None:
    """How long after the end of a failed run its next attempt begins; None if there is none. `own` is the policy of its
    workflow. Raises what a function of that policy raises.
    """
    state = retry_of(run)
    policy = own if state.policy is None else state.policy.retry
    if policy is None or policy.is_last(state.attempt) or not isinstance(error, Exception):
        return None
    names = _names_of(error, failure)
    if names & _FINAL_NAMES or (failure.type == Failure.__name__ and not failure.qualified):
        return None
    if _RETRY_AFTER not in names and not _allows(policy, state.policy, error, names):
        return None
    return policy.wait_after(state.attempt, error, chance)


def _allows(policy: Retry, stored: RunPolicy | None, error: Exception, names: frozenset[str]) -> bool:
    if stored is not None:
        wanted, unwanted = stored.retry_on, stored.give_up_on
    elif callable(policy.retry_on):
        if not policy.retry_on(error):
            return False
        wanted, unwanted = None, tuple(map(_name_of, policy.give_up_on))
    else:
        wanted = None if policy.retry_on is None else tuple(map(_name_of, policy.retry_on))
        unwanted = tuple(map(_name_of, policy.give_up_on))
    return names.isdisjoint(unwanted) and (wanted is None or not names.isdisjoint(wanted))


def _names_of(error: BaseException, failure: FailureRecord) -> frozenset[str]:
    """The types of a failure, and of the failure of the step or child that caused it."""
    names = {_name_of(kind) for kind in type(error).__mro__} | {failure.qualified}
    if isinstance(error, (StepFailed, ChildFailed, RecordedError)) and error.failure is not None:
        names.add(error.failure.qualified)
    return frozenset(names - {""})
