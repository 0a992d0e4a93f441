"""Code that was changed while people repair runs: what was recorded before a repair is as binding as ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sim.cases.case import Case, did
from stepwell import Context, Fatal, Retry, step, workflow
from stepwell.errors import RequestError
from stepwell.testing import scripts
from stepwell.testing.scripts import Act
from stepwell.testing.sync import SyncKit, SyncRun


async def _charge(name: str) -> str:
    did(f"charged {name}")
    return name


class _Deployment:
    """The code that workers have, and whether there is stock."""

    def __init__(self) -> None:
        self.charges: tuple[str, ...] = ()
        self.has_stock = False

    def begin(self) -> None:
        """The first release, and nothing in stock."""
        self.charges, self.has_stock = ("first", "second"), False


_DEPLOYED = _Deployment()


@step(retry=Retry(max_attempts=1))
async def _ship() -> None:
    if not _DEPLOYED.has_stock:
        raise Fatal("nothing in stock")


@workflow
async def ordering(ctx: Context) -> list[str]:
    """Charges by the code of the release that is deployed."""
    paid = [await ctx.step(name, _charge, name) for name in _DEPLOYED.charges]
    await ctx.step("ship", _ship)
    await ctx.receive("go")
    return paid


def _deploy(*charges: str) -> Act:
    """Other code is deployed: every worker dies, and those that take over have it."""

    def act(kit: SyncKit, run: SyncRun[Any], /) -> None:
        _DEPLOYED.charges = charges
        for node in kit.world.alive():
            kit.world.kill(node)

    return act


def _repair(verb: Callable[[SyncKit, str], Awaitable[Any]]) -> Act:
    """Somebody repairs the run, now that there is stock. A repair that is refused changes nothing."""

    def act(kit: SyncKit, run: SyncRun[Any], /) -> None:
        _DEPLOYED.has_stock = True
        try:
            kit.wait(verb(kit, run.run_id))  # type: ignore[arg-type]
        except RequestError as refused:
            did(f"refused: {refused.code}")

    return act


def _note(kit: SyncKit, run: SyncRun[Any], /) -> None:
    did(f"it is {run.details()[-1].run.status.value}")


_FORK = "the fork"


def _note_fork(kit: SyncKit, run: SyncRun[Any], /) -> None:
    view = kit.wait(kit.engine.status(_FORK))
    did(f"it is {view.status}" if view.output is None else f"the fork gives {view.output}")


_RETRY = _repair(lambda kit, at: kit.engine.repairs.retry(at))
_REDRIVE = _repair(lambda kit, at: kit.engine.repairs.redrive(at))
_REWIND = _repair(lambda kit, at: kit.engine.repairs.rewind(at, "ship"))
_START_FORK = _repair(lambda kit, at: kit.engine.repairs.fork(at, "ship", run_id=_FORK))
_RESUME = _repair(lambda kit, at: kit.engine.holds.resume(at))
_RESUME_FORK = _repair(lambda kit, at: kit.engine.holds.resume(_FORK))
_GO, _GO_FORK = scripts.send("go"), _repair(lambda kit, at: kit.engine.signal(_FORK, "go"))
_ORIGINAL = ("first", "second")
_STOPPED = ("charged first", "charged second", "it is paused")
_CHANGES = {"renamed": ("first", "other"), "removed": ("first",), "inserted": ("first", "between", "second")}
_REPAIRS = {"retry": _RETRY, "redrive": _REDRIVE, "rewind": _REWIND}


def _case(*script: Act) -> Case:
    """It stops under the changed code, and goes on under the code that it was begun with."""
    return Case(ordering, output=[*_ORIGINAL], done=_STOPPED, script=script, begin=_DEPLOYED.begin)


def _forked(charges: tuple[str, ...]) -> Case:
    """A fork stops under the changed code, and goes on under the other; what was forked has failed."""
    script = (_deploy(*charges), _START_FORK, _note_fork, _deploy(*_ORIGINAL), _RESUME_FORK, _GO_FORK, _note_fork)
    done = (*_STOPPED, f"the fork gives {[*_ORIGINAL]}")
    return Case(ordering, status="failed", done=done, script=script, begin=_DEPLOYED.begin)


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for how, charges in _CHANGES.items():
        change, restore = _deploy(*charges), (_deploy(*_ORIGINAL), _RESUME)
        for verb, repair in _REPAIRS.items():
            cases[f"a step {how}, then {verb}"] = _case(change, repair, _note, *restore, _GO)
        cases[f"a step {how}, then fork"] = _forked(charges)
        cases[f"retry, then a step {how}"] = _case(_RETRY, change, _GO, _note, *restore)
    return cases


CASES = _cases()
