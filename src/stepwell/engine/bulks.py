"""Bulk acts: one act on many runs, which is a run of its own and is executed by any worker."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from stepwell.advice import Advice, Verb
from stepwell.clock import to_datetime
from stepwell.codec.base import Place, Row
from stepwell.engine.backend import Backend
from stepwell.engine.bulk_verbs import Nouns, check_options
from stepwell.engine.filters import fitted, parse_filter
from stepwell.engine.system_runs import BULK, without_system_runs
from stepwell.engine.views import RunView
from stepwell.errors import AlreadyExistsError, InvalidOptionError, NotFoundError, RequestError, StoreError
from stepwell.ids import RunId
from stepwell.model.locations import format_path
from stepwell.model.runs import Run
from stepwell.model.states import EntryStatus, RunStatus
from stepwell.stores.base.filters import Condition, Field
from stepwell.stores.base.overviews import Summary
from stepwell.stores.base.views import RunFilter

VERSION: Final = 1
BULK_DEFINITION: Final = f"{BULK}@{VERSION}"
ACT: Final = "act"  # its step whose results are the items
ABORT: Final = "abort"  # its signal
PAGE: Final = 1_000
SAMPLE: Final = 5  # runs of a preview
MATCHED_MAX: Final = 100_000
NAMED_MAX: Final = 10_000
OUTCOMES: Final = ("done", "before", "refused")

_FOREVER: Final = "36500d"
_NO_BULK: Final = Condition(Field.WORKFLOW, ((BULK, ""),), negated=True)  # an act does not act on acts
_NAME: Final = re.compile(r"bulk-[0-9]{1,18}")
_STATES: Final = {
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLING: "aborting",
    RunStatus.CANCELLED: "aborted",
    RunStatus.PAUSED: "paused",
}


@dataclass(frozen=True, slots=True)
class BulkOrder:
    """What to do to which runs: the runs that match a filter at a moment, or named runs."""

    verb: str
    where: str = ""
    runs: list[str] = field(default_factory=list)
    by: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    at: int = 0


@dataclass(frozen=True, slots=True)
class BulkItem:
    """The outcome for one run: done, done before, or refused with a reason. `status` is the status after that."""

    run_id: str
    outcome: str
    status: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class BulkView:
    """One act on many runs. `state` is running, aborting, paused, done, aborted or failed."""

    name: str
    run_id: str
    verb: str
    by: str
    where: str  # empty if the runs were named
    state: str
    matched: int  # 0 during the search
    done: int
    before: int
    refused: int
    began_at: datetime
    ended_at: datetime | None
    reason: str = ""  # that its order gives

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """The runs that an act would find now: how many, by status, and some of them."""

    matched: int
    statuses: Mapping[str, int]
    sample: tuple[RunView, ...]


class Bulks:
    """`engine.bulks`: acts on many runs. Any worker executes them in chunks; if it dies, another worker continues."""

    def __init__(self, backend: Backend, engine: Nouns) -> None:
        self._backend = backend
        self._engine = engine

    async def match(self, where: str) -> list[RunView]:
        """All runs that match a filter now, except bulk acts. Raises `FilterError`, and `RequestError` for
        more than 100,000.
        """
        wanted, cursor = parse_filter(where, self._backend.opened.now()), None
        found: list[RunView] = []
        while page := await self._engine.runs.list(wanted, limit=PAGE, before=cursor):
            found += [run for run in page if run.workflow != BULK]
            cursor = page[-1].run_id
            check_matched(len(found), where)
            if len(page) < PAGE:
                break
        return found

    async def preview(self, where: str | None = None, *, runs: Sequence[str] = ()) -> BulkPreview:
        """What an act on these runs would find now, without their payloads. Changes nothing.

        Raises `FilterError`, and `RequestError` for more than 100,000.
        """
        if where is None:
            named = [run for run in await self._engine.runs.find_many(runs) if run is not None]
            found = list({run.run_id: run for run in named}.values())
            return BulkPreview(len(found), Counter(run.status for run in found), tuple(found[:SAMPLE]))
        wanted = without_system_runs(parse_filter(where, self._backend.opened.now()))
        wanted = wanted._replace(conditions=(*wanted.conditions, _NO_BULK))
        await self._backend.retrying(lambda store: fitted(wanted, store.views))
        # What is too much is refused by a count, before anything is read.
        most = await self._backend.retrying(lambda store: store.views.count_runs(wanted, limit=MATCHED_MAX + 1))
        check_matched(most, where)
        tally: Counter[str] = Counter()
        page = await self._page(wanted, None)
        sample = [one.run_id for one in page[:SAMPLE]]
        while page:
            tally.update(one.status.value for one in page)
            page = await self._page(wanted, page[-1].run_id) if len(page) == PAGE else []
        check_matched(tally.total(), where)
        shown = [run for run in await self._engine.runs.find_many(sample) if run is not None]
        return BulkPreview(tally.total(), tally, tuple(shown))

    async def _page(self, where: RunFilter, before: RunId | None) -> list[Summary]:
        return await self._backend.retrying(
            lambda store: store.overviews.list_summaries(where, limit=PAGE, before=before)
        )

    async def start(
        self,
        verb: str,
        where: str | None = None,
        *,
        runs: Sequence[str] = (),
        by: str = "",
        run_id: str | None = None,
        **options: Any,
    ) -> BulkView:
        """Act on all runs that match a filter now, or on named runs: "cancel", "pause", "resume", "retry",
        "resume_rollback", "mark_undone", "rewind" or "redrive", with the options of that verb.

        The order is durable when this returns, and a worker executes it. It acts on each run once, even if workers
        die; the audit of the run names the person and the act ("ann by bulk-12"). Runs that match later are left
        alone, and so are runs in an unsuitable status: `items` has the outcome for each. A `run_id` that is already
        known returns the act with that id.
        """
        said = check_options(verb, options)
        if (where is None) == (not runs):
            raise InvalidOptionError("name the runs", fix='where="status:failed since:1h", or runs=[...], not both')
        if len(runs) > NAMED_MAX:
            raise RequestError(f"{len(runs):,} runs are named", why=f"{NAMED_MAX:,} is the most", fix="use a filter")
        now = self._backend.opened.now()
        if where is not None:
            wanted = parse_filter(where, now)
            await self._backend.retrying(lambda store: fitted(wanted, store.views))
        order = {
            "verb": verb,
            "where": where or "",
            "runs": list(dict.fromkeys(runs)),
            "by": by,
            "options": said,
            "at": now,
        }
        return await self.get(await self._start(order, run_id))

    async def _start(self, order: dict[str, Any], run_id: str | None) -> str:
        latest = await self._latest(1)
        number = _number(latest[0]) + 1 if latest else 1
        while True:
            known = None if run_id is None else await self._engine.runs.find(run_id)
            if known is not None and known.workflow != BULK:
                raise AlreadyExistsError(f"run {run_id} exists already", where=BULK, fix="leave the run_id out")
            if known is not None:
                return known.key or known.run_id
            key = f"bulk-{number}"
            try:
                await self._engine.runs.start_by_name(
                    BULK, VERSION, order, key=key, run_id=run_id, on_conflict="raise", dedup=_FOREVER, by=order["by"]
                )
            except AlreadyExistsError:
                number += 1
            else:
                return key

    async def get(self, name: str) -> BulkView:
        """One bulk act as it is now. Raises `NotFoundError`."""
        return await self._view(await self._find(name))

    async def items(self, name: str) -> list[BulkItem]:
        """The outcome for each run so far, in the order of the acts."""
        run = await self._find(name)
        history = (await self._backend.detail(run.run_id)).history
        pages = [
            self._backend.codec.decode(entry.value, list[BulkItem], place=_place(run, path, "value"))
            for entry in history.entries
            if entry.status is EntryStatus.DONE
            and (path := format_path(entry.location, history.names)).partition("#")[0] == ACT
        ]
        return [item for page in pages for item in page]

    async def abort(self, name: str) -> bool:
        """Stop it after the current chunk. Finished acts stay done. False if it has ended."""
        run = await self._find(name)
        if run.ended_at is not None:
            return False
        await self._engine.signals.send(run.run_id, ABORT, dedup_key=ABORT, if_missing="drop")
        return not (await self.get(name)).is_over

    async def _latest(self, limit: int) -> list[Run]:
        return await self._backend.retrying(lambda store: store.views.list_runs(RunFilter(workflow=BULK), limit=limit))

    async def _find(self, name: str) -> Run:
        key = f"bulk-{name}" if name.isdigit() else name
        found = await self._backend.find(key) if _NAME.fullmatch(key) else None
        if found is None or found.workflow != BULK:
            raise NotFoundError("bulk", name, fix=Advice(Verb.LIST_BULKS))
        return found

    async def _view(self, run: Run) -> BulkView:
        try:
            order: BulkOrder = self._backend.codec.decode(run.input, BulkOrder, place=_place(run, "", "input"))
            counts = await self._engine.runs.state(run.run_id) or {}
        except StoreError:  # encrypted with a key that is not here
            order, counts = BulkOrder("?"), {}
        is_completed = run.status is RunStatus.COMPLETED
        state = counts.get("state", "done") if is_completed else _STATES.get(run.status, "running")
        if state == "running" and await self._is_aborting(run):
            state = "aborting"
        return BulkView(
            run.key or run.run_id,
            run.run_id,
            order.verb,
            order.by,
            order.where,
            state,
            counts.get("matched", len(order.runs)),
            counts.get("done", 0),
            counts.get("before", 0),
            counts.get("refused", 0),
            to_datetime(run.created_at),
            None if run.ended_at is None else to_datetime(run.ended_at),
            str(order.options.get("reason", "")),
        )

    async def _is_aborting(self, run: Run) -> bool:
        return any(signal.name == ABORT for signal in (await self._backend.detail(run.run_id)).signals)

    # Last, because below it `list` is this method.
    async def list(self, *, limit: int = 50) -> list[BulkView]:
        """The latest bulk acts, newest first."""
        return [await self._view(run) for run in await self._latest(limit)]


def check_matched(count: int, where: str) -> None:
    """Raise `RequestError` if there are too many runs for one act."""
    if count > MATCHED_MAX:
        raise RequestError(
            f"more than {MATCHED_MAX:,} runs match {where!r}",
            why="that is the most for one act",
            fix="do it in parts: add since: or until: to the filter",
        )


def _number(run: Run) -> int:
    """The number in its name; a repaired run may have another key."""
    return int(run.key.removeprefix("bulk-")) if run.key is not None and _NAME.fullmatch(run.key) else 0


def _place(run: Run, path: str, what: str) -> Place:
    return Place(run.workflow, path, f"the {what}", row=Row(run.run_id, path, what))
