"""The schedules that the code of this engine has: a worker stores them when it starts."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from stepwell.clock import Instant
from stepwell.codec.base import ANY, Place
from stepwell.engine.backend import Backend
from stepwell.engine.records import PAGE, Document, Draft, RecordKind, Records
from stepwell.engine.schedule_records import CODE_LABEL, ScheduleBody, declared, removed
from stepwell.engine.schedule_starts import Target, check_spec_input
from stepwell.engine.versions import of_users
from stepwell.errors import DuplicateNameError
from stepwell.model.schedules import Schedule, Spec, check_input
from stepwell.model.ticks import before
from stepwell.replay.workflows import Workflow


class ScheduleDeclarations:
    """Stores what the code says, and pauses what it does not say any more. It deletes nothing."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.SCHEDULE, ScheduleBody)

    def check(self) -> dict[str, tuple[Spec, Workflow[Any, Any]]]:
        """What the code declares, by name. Raises `DuplicateNameError` if two schedules have one name, and
        `InvalidInputError` for an input that does not fit its workflow.
        """
        found: dict[str, tuple[Spec, Workflow[Any, Any]]] = {}
        for workflow in self._newest().values():
            for name, schedule in workflow.schedules.items():
                if name in found:
                    raise DuplicateNameError(
                        f"two schedules are called {name!r}",
                        where=f"{found[name][1].name} and {workflow.name}",
                        fix='give one of them another name: cron("0 6 * * *", name="mornings")',
                    )
                found[name] = self._spec(name, schedule, workflow), workflow
        return found

    async def declare_all(self) -> None:
        """Create, change and pause schedules as the code says. Costs one request if nothing has changed."""
        said, workflows = self.check(), self._newest()
        if not workflows:
            return
        now, known = self._backend.opened.now(), await self._list()
        for name, (spec, workflow) in said.items():
            one = known.get(name)
            if one is None or declared(name, spec, workflow.version, one, now) is not None:
                await self._records.change(name, partial(_declared, name, spec, workflow.version, now))
        for name, one in known.items():
            body = one.content
            if name in said or body is None or body.declared is None or body.is_removed:
                continue
            of = workflows.get(body.declared.workflow)
            if of is not None and of.version >= body.declared_version:
                await self._records.change(name, partial(_removed, of.name, now))

    def _newest(self) -> dict[str, Workflow[Any, Any]]:
        registry = self._backend.registry
        found: dict[str, Workflow[Any, Any]] = {}
        for definition in of_users(registry.definitions):
            workflow = registry.find(definition)
            if workflow is not None and (workflow.name not in found or found[workflow.name].version < workflow.version):
                found[workflow.name] = workflow
        return found

    async def _list(self) -> dict[str, Document[ScheduleBody]]:
        found = page = await self._records.list(labels=(CODE_LABEL,), limit=PAGE)
        while len(page) == PAGE:
            page = await self._records.list(labels=(CODE_LABEL,), limit=PAGE, after=page[-1].record.record_id)
            found += page
        return {one.record.record_id: one for one in found}

    def _spec(self, name: str, schedule: Schedule, workflow: Workflow[Any, Any]) -> Spec:
        spec = Spec(
            schedule.rule,
            workflow.name,
            plain_input(self._backend, name, schedule.input),
            schedule.overlap,
            schedule.catch_up,
            schedule.window,
            schedule.jitter,
        )
        now = self._backend.opened.now()
        check_spec_input(
            self._backend, name, spec, Target(workflow.name, workflow.version, workflow), sample(spec, now)
        )
        return spec


def _declared(
    name: str, spec: Spec, version: int, now: Instant, it: Document[ScheduleBody] | None
) -> Draft[ScheduleBody] | None:
    return declared(name, spec, version, it, now)


def _removed(workflow: str, now: Instant, it: Document[ScheduleBody] | None) -> Draft[ScheduleBody] | None:
    return removed(workflow, it, now)


def plain_input(backend: Backend, name: str, value: Any) -> Any:
    """An input as plain JSON, with its templates. Raises `InvalidOptionError` for a template that names nothing."""
    if value is None:
        return None
    place = Place("", f"schedule {name}", "the input")
    plain = msgspec.json.decode(backend.codec.encode_body(value, ANY, place))
    check_input(plain)
    return plain


def sample(spec: Spec, now: Instant) -> Instant:
    """A tick with which an input is tried."""
    return before(spec.rule, now) or now
