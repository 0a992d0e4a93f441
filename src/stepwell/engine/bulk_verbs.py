"""The verbs of bulk acts: each with its options, and how it acts on one run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypedDict

import msgspec

from stepwell.engine.holds import Holds
from stepwell.engine.repairs import Repairs
from stepwell.engine.runs import Runs
from stepwell.engine.signals import Signals
from stepwell.engine.views import RunView
from stepwell.errors import InvalidOptionError, RequestError
from stepwell.nearest import nearest


class Nouns(Protocol):
    """The nouns of an engine that act on runs."""

    @property
    def runs(self) -> Runs: ...
    @property
    def signals(self) -> Signals: ...
    @property
    def holds(self) -> Holds: ...
    @property
    def repairs(self) -> Repairs: ...


class NoOptions(TypedDict):
    """It takes no options."""


class ReasonOptions(TypedDict, total=False):
    """The reason, for the audit."""

    reason: str


class CancelOptions(ReasonOptions, total=False):
    """See `Engine.cancel`."""

    compensate: bool


class MarkUndoneOptions(TypedDict):
    """See `Repairs.mark_undone`."""

    path: str
    reason: str


class _Path(TypedDict):
    path: str


class RewindBulkOptions(_Path, ReasonOptions, total=False):
    """See `Repairs.rewind`."""


class RedriveBulkOptions(ReasonOptions, total=False):
    """See `Repairs.redrive`."""

    from_path: str | None
    version: Literal["same", "new"] | int
    input: Any
    skip: str | None
    result: Any


class BulkVerb(NamedTuple):
    """One verb, as it acts on each of many runs."""

    do: Callable[[Nouns, str, dict[str, Any]], Awaitable[bool]]  # false: not possible in this state
    options: Any  # the type of its options
    had_before: Collection[str] = ()  # statuses in which repeating it is not an error
    pauses: bool = False  # also not if the run is already held, and has not stopped yet

    def was_done(self, run: RunView) -> bool:
        """Whether the run is already in the wanted state."""
        return run.status in self.had_before or (self.pauses and run.hold is not None)

    async def act(self, engine: Nouns, run_id: str, options: Mapping[str, Any], by: str) -> bool:
        """Act on one run; false if its status does not allow it. A repair that is refused raises."""
        return await self.do(engine, run_id, {**options, "by": by})


async def _rewind(engine: Nouns, run_id: str, options: dict[str, Any]) -> bool:
    return (await engine.repairs.rewind(run_id, **options)).is_applied


async def _redrive(engine: Nouns, run_id: str, options: dict[str, Any]) -> bool:
    return (await engine.repairs.redrive(run_id, **options)).is_applied


VERBS: Final[Mapping[str, BulkVerb]] = {
    "cancel": BulkVerb(
        lambda engine, run_id, options: engine.runs.cancel(run_id, **options),
        CancelOptions,
        had_before=("cancelled", "cancelling"),
    ),
    "pause": BulkVerb(
        lambda engine, run_id, options: engine.holds.pause(run_id, **options),
        ReasonOptions,
        had_before=("paused",),
        pauses=True,
    ),
    "wake": BulkVerb(lambda engine, run_id, options: engine.runs.wake(run_id, **options), ReasonOptions),
    "resume": BulkVerb(lambda engine, run_id, options: engine.holds.resume(run_id, **options), NoOptions),
    "retry": BulkVerb(lambda engine, run_id, options: engine.repairs.retry(run_id, **options), NoOptions),
    "resume_rollback": BulkVerb(
        lambda engine, run_id, options: engine.repairs.resume_rollback(run_id, **options),
        NoOptions,
        had_before=("compensating",),
    ),
    "mark_undone": BulkVerb(
        lambda engine, run_id, options: engine.repairs.mark_undone(run_id, **options), MarkUndoneOptions
    ),
    "rewind": BulkVerb(_rewind, RewindBulkOptions),
    "redrive": BulkVerb(_redrive, RedriveBulkOptions),
}


def find_verb(name: str) -> BulkVerb:
    """A verb by its name. Raises `InvalidOptionError`."""
    found = VERBS.get(name)
    if found is None:
        near = nearest(name, VERBS)
        raise InvalidOptionError(
            f"{name!r} is not a bulk act",
            why=f"possible are {', '.join(VERBS)}",
            fix=f"did you mean {near[0]}?" if near else "do it for each run separately",
        )
    return found


def check_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a verb, checked. Raises `InvalidOptionError`."""
    wanted = find_verb(name).options
    known = [*wanted.__annotations__]
    unknown = [option for option in given if option not in known]
    if unknown:
        takes = ", ".join(known) or "no options"
        raise InvalidOptionError(f"{name} has no option {unknown[0]!r}", fix=f"it takes {takes}")
    try:
        return dict(msgspec.convert(dict(given), wanted))
    except msgspec.ValidationError as error:
        raise InvalidOptionError(f"{name} has an invalid option: {error}", fix=f"it takes {', '.join(known)}") from None


def refusal(error: RequestError) -> str:
    """Why one run was refused, in one line."""
    return " ".join(str(error).split())[:200]
