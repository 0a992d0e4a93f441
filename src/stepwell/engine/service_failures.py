"""Failures of services: a worker records that one of its services fails, so that every process can tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from stepwell.clock import DAY, SECOND, Instant, Span, to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.records import PAGE, Document, Draft, NewLine, RecordKind, Records
from stepwell.model.failures import record_failure
from stepwell.model.states import ServiceState

_TEXT_MAX: Final = 500
_CURRENT: Final = Span(900 * SECOND)  # a failing service reports again at least every five minutes
_KEPT: Final = Span(7 * DAY)  # a closed report


class FailureBody(msgspec.Struct, frozen=True):
    """What a worker says of its service."""

    service: str
    worker: str
    code: str
    message: str
    since: int
    times: int  # in a row


@dataclass(frozen=True, slots=True)
class ServiceFailureView:
    """A service that fails on a worker now. Other workers may run it without failing."""

    service: str
    worker: str
    code: str
    message: str
    since: datetime
    last_at: datetime
    times: int  # in a row


class ServiceFailures:
    """The services that fail, each on one worker."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._records = Records(backend, RecordKind.SERVICE, FailureBody)

    async def note(self, service: str, source: str, worker: str, error: Exception, times: int) -> None:
        """Report a failure. `source` is the loop that it happened in."""
        now = self._backend.opened.now()
        code, message = _said(error)

        def decide(it: Document[FailureBody] | None) -> Draft[FailureBody]:
            since = it.content.since if it is not None and it.record.is_open and it.content is not None else now
            return Draft(
                state=ServiceState.FAILING,
                body=FailureBody(service, worker, code, message, since, times),
                lines=(NewLine("failed"),),
                due_at=Instant(now + DAY),
            )

        await self._records.change(_id(service, source), decide)

    async def clear(self, service: str, source: str) -> None:
        """It works again there."""
        await self._close(_id(service, source), "recovered")

    async def forget_old(self) -> None:
        """Close reports of workers that are gone."""
        for one in await self._records.due():
            await self._close(one.record.record_id, "forgotten")

    async def _close(self, record_id: str, verb: str) -> None:
        def decide(it: Document[FailureBody] | None) -> Draft[FailureBody] | None:
            if it is None or not it.record.is_open:
                return None
            return Draft(state=ServiceState.RECOVERED, lines=(NewLine(verb),))

        if await self._records.change(record_id, decide):
            # Here, so that a worker whose services never fail writes nothing.
            await self._backend.retrying(
                lambda store: store.records.prune(RecordKind.SERVICE, older_than=_KEPT, limit=PAGE)
            )

    # Last, because below it `list` is this method.
    async def list(self) -> list[ServiceFailureView]:
        """The services that fail now, the latest failure first."""
        now = self._backend.opened.now()
        found = await self._records.list(states=[ServiceState.FAILING], limit=PAGE)
        current = [one for one in found if one.record.updated_at > now - _CURRENT]
        return [_view(one) for one in sorted(current, key=lambda one: -one.record.updated_at)]


def _id(service: str, source: str) -> str:
    return f"{service} {source}"


def _said(error: Exception) -> tuple[str, str]:
    record = record_failure(error)
    return record.code, record.summary[:_TEXT_MAX]


def _view(one: Document[FailureBody]) -> ServiceFailureView:
    body, at = one.content, to_datetime(one.record.updated_at)
    if body is None:  # encrypted with a key that is not here
        return ServiceFailureView(one.record.record_id.rpartition(" ")[0], "", "", "", at, at, 1)
    since = to_datetime(Instant(body.since))
    return ServiceFailureView(body.service, body.worker, body.code, body.message, since, at, body.times)
