"""Declarations: the triggers that the code of this engine has, which its worker keeps alive in the store."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from stepwell.clock import Instant
from stepwell.engine.backend import Backend
from stepwell.engine.records import RecordKind, Records
from stepwell.engine.trigger_records import RENEW_EVERY, TriggerBody, declared, expired, renewed
from stepwell.engine.triggers import Trigger, by_name
from stepwell.errors import InvalidOptionError
from stepwell.model.records import Record


class Declarations:
    """The triggers of one engine. A trigger lasts while a worker declares it, and a day longer."""

    def __init__(self, backend: Backend, triggers: Iterable[Trigger], *, may_declare: bool) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.TRIGGER, TriggerBody)
        self._known = by_name(triggers)
        self._may_declare = may_declare
        self._renew_at: dict[str, Instant] = {}

    async def declare(self, trigger: Trigger) -> None:
        """Store a trigger, and renew it from now on. Raises `InvalidOptionError` in an engine without a worker."""
        if not self._may_declare:
            raise InvalidOptionError(
                "this engine has no worker, so it cannot declare a trigger",
                where=f"trigger {trigger.name}",
                why="a trigger lasts while a worker declares it",
                fix="declare it in the app of the workers: App(workflows=[...], triggers=[Trigger(...)])",
            )
        self._known[trigger.name] = trigger
        await self._declare(trigger)

    async def declare_all(self) -> None:
        """Store the triggers of the app, before its worker begins."""
        for trigger in tuple(self._known.values()):
            await self._declare(trigger)

    async def _declare(self, trigger: Trigger) -> None:
        now = self._backend.store.now()
        await self._records.change(trigger.name, partial(declared, _body(trigger, now)))
        self._renew_at[trigger.name] = Instant(now + RENEW_EVERY)

    async def renew(self) -> Instant | None:
        """Renew the triggers whose time has come; returns the time of the next one."""
        now = self._backend.store.now()
        for name in [name for name, at in self._renew_at.items() if at <= now]:
            await self._records.change(name, partial(renewed, _body(self._known[name], now)))
            self._renew_at[name] = Instant(now + RENEW_EVERY)
        return min(self._renew_at.values(), default=None)

    async def list_lapsed(self) -> list[Record]:
        """Active triggers that no worker has declared for a day."""
        return [one.record for one in await self._records.due()]

    async def expire(self, lapsed: Record) -> bool:
        """Make a trigger `undeclared`, unless a worker has declared it meanwhile."""
        return await self._records.change(lapsed.record_id, partial(expired, lapsed.version))


def _body(trigger: Trigger, now: Instant) -> TriggerBody:
    workflow = trigger.start
    return TriggerBody(
        trigger.topic,
        workflow.name,
        workflow.version,
        workflow.takes_input,
        workflow.discards,
        trigger.key,
        trigger.input,
        trigger.dedup,
        now,
    )
