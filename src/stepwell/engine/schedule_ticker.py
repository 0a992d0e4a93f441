"""The ticker: acts on due schedules, many in one transaction. The first change of a schedule wins."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from stepwell.clock import SECOND, Instant, Span
from stepwell.engine.backend import Backend
from stepwell.engine.cancellations import cancel_run
from stepwell.engine.records import Document, Draft, RecordKind, Records
from stepwell.engine.schedule_records import ScheduleBody
from stepwell.engine.schedule_starts import Target, Targets, find_active, new_run
from stepwell.engine.schedule_ticks import blocked, ticked, unreadable
from stepwell.errors import InvalidOptionError, NotFoundError, StepwellError, StoreError, UnknownWorkflowError
from stepwell.model.records import ChangeOutcome
from stepwell.model.runs import NewRun
from stepwell.model.schedules import Overlap
from stepwell.model.states import ScheduleState

_LOG = logging.getLogger("stepwell.worker")

BATCH: Final = 200
UNKNOWN_PAUSE: Final = Span(60 * SECOND)  # until a workflow that no worker has is looked for again
BROKEN_PAUSE: Final = Span(3_600 * SECOND)  # until a rule or a body that cannot be read here is read again

_Drafted = tuple[Document[ScheduleBody], Draft[ScheduleBody]]


class Ticker:
    """Does what is due: starts runs, records what was skipped or missed, and cancels what is replaced."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.SCHEDULE, ScheduleBody)

    async def run_once(self) -> int:
        """Act on everything that is due now; returns how many schedules were changed here."""
        # A changed schedule has another version. A row that cannot be changed must not delay the other schedules.
        changed, stuck, seen = 0, 0, set[tuple[str, int]]()
        while True:
            limit = BATCH + stuck
            found = await self._records.due(limit)
            due = [one for one in found if (one.record.record_id, one.record.version) not in seen]
            stuck = len(found) - len(due)
            if not due and len(found) < limit:
                return changed
            changed += await self._act(due)
            seen |= {(one.record.record_id, one.record.version) for one in due}

    async def _act(self, due: Sequence[Document[ScheduleBody]]) -> int:
        backend, targets = self._backend, Targets(self._backend)
        now = backend.opened.now()
        await self._cancel(due)
        looked_at = {run_id for one in due if _needs_a_look(one) for run_id in one.body.active}
        active = await find_active(backend, looked_at) if looked_at else set[str]()
        drafts: list[_Drafted] = []
        for one in due:
            draft = await self._draft(one, now, active, targets)
            if draft is not None:
                drafts.append((one, draft))
        return await self._apply(drafts)

    async def _draft(
        self, one: Document[ScheduleBody], now: Instant, active: set[str], targets: Targets
    ) -> Draft[ScheduleBody] | None:
        name = one.record.record_id
        try:
            if one.content is None:
                _LOG.warning("schedule %s cannot be read here: %s", name, one.problem and one.problem.title)
                return unreadable(one, now, BROKEN_PAUSE)
            body = one.content
            is_active = one.record.state == ScheduleState.ACTIVE
            target = await targets.find(body.spec.workflow) if is_active else Target(body.spec.workflow, 1)
            running = body.active if not _needs_a_look(one) else tuple(each for each in body.active if each in active)

            def make(tick: Instant, previous: Instant | None) -> NewRun:
                return new_run(self._backend, name, body.spec, target, tick, previous)

            return ticked(one, now, running, make)
        except UnknownWorkflowError as error:
            return blocked(one, error, now, UNKNOWN_PAUSE)
        except InvalidOptionError as error:
            return blocked(one, error, now, BROKEN_PAUSE)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001  one schedule must not delay the others
            _LOG.exception("schedule %s failed", name)
            try:
                return unreadable(one, now, UNKNOWN_PAUSE)
            except ValueError:  # not even its state can be read
                return None

    async def _cancel(self, due: Sequence[Document[ScheduleBody]]) -> None:
        """Cancel what runs were replaced. It is repeated if this worker dies before it has recorded that."""
        for one in due:
            for run_id in () if one.content is None else one.content.cancels:
                try:
                    reason = f"replaced by the next run of schedule {one.record.record_id}"
                    await cancel_run(self._backend, run_id, reason, compensate=True)
                except NotFoundError:
                    continue  # it has ended, and was pruned

    async def _apply(self, drafts: Sequence[_Drafted]) -> int:
        if not drafts:
            return 0
        try:
            changed = await self._records.apply(drafts)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001  one schedule must not delay the others
            if len(drafts) > 1:
                return sum([await self._apply([each]) for each in drafts])
            [(one, _)] = drafts
            _LOG.exception("schedule %s could not be changed", one.record.record_id)
            if isinstance(error, StepwellError) and one.content is not None:
                now = self._backend.opened.now()
                changed = await self._records.apply([(one, blocked(one, error, now, BROKEN_PAUSE))])
            else:
                return 0
        return sum(each.outcome is ChangeOutcome.CHANGED for each in changed)


def _needs_a_look(one: Document[ScheduleBody]) -> bool:
    """Whether it depends on its runs what happens. Runs that overlap are only remembered."""
    return one.content is not None and one.content.spec.overlap is not Overlap.ALLOW
