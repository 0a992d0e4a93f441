"""Operations about the server and its store: health, workers, the audit, the description of the API, metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from stepwell.clock import to_datetime
from stepwell.http.operations import Call, Reply, look
from stepwell.http.roles import Permission
from stepwell.http.runs import Limit
from stepwell.model.ledger import ACT_LAST
from stepwell.telemetry.metrics import MEDIA, Counter, Gauge, render


class HealthBody(msgspec.Struct):
    """That it is well; nothing else."""

    status: str


class WorkerBody(msgspec.Struct):
    """One registered worker."""

    name: str
    incarnation: str
    started_at: datetime
    lease_until: datetime
    is_alive: bool
    definitions: list[str]


class WorkerList(msgspec.Struct):
    """Registered workers, oldest first."""

    workers: list[WorkerBody]


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which lines: those with numbers below this."""

    limit: Limit = 100
    below: Annotated[int, Meta(ge=1, le=ACT_LAST)] = ACT_LAST


class AuditBody(msgspec.Struct):
    """Who did what. Every act has two lines: `asked` before it, and the status of its answer after it."""

    number: int
    at: datetime
    request_id: str
    who: str
    act: str
    target: str
    outcome: str
    before: str
    after: str
    chain: str


class AuditPage(msgspec.Struct):
    """Acts, newest first; `next` is `below` of the page after this one."""

    acts: list[AuditBody]
    next: int | None


async def healthz(call: Call) -> Reply:
    """The process answers."""
    return Reply(HealthBody("ok"))


async def readyz(call: Call) -> Reply:
    """The store answers too."""
    await call.services.engine.probe()
    return Reply(HealthBody("ok"))


async def list_workers(call: Call) -> Reply:
    """Registered workers."""
    found = await call.services.engine.workers.list()
    return Reply(
        WorkerList(
            [
                WorkerBody(
                    one.name, one.incarnation, one.started_at, one.lease_until, one.is_alive, list(one.definitions)
                )
                for one in found
            ]
        )
    )


async def list_audit(call: Call) -> Reply:
    """Who did what through this API."""
    found = await call.services.ledger.list_acts(limit=call.query.limit + 1, below=call.query.below)
    page = found[: call.query.limit]
    following = page[-1].number if len(found) > len(page) else None
    return Reply(AuditPage([AuditBody(one.number, to_datetime(one.at), *one[2:]) for one in page], following))


async def describe(call: Call) -> Reply:
    """This API as OpenAPI 3.1."""
    return Reply(call.services.document)


async def metrics(call: Call) -> Response:
    """Figures for Prometheus."""
    services = call.services
    answered = Counter("stepwell_http_requests_total", "Requests that were answered.", ("operation", "status"))
    for (name, status), count in services.requests.items():
        answered.add(name, str(status), count=count)
    followers = Gauge("stepwell_http_followers", "Streams of changes that are open.", {(): services.followers})
    return Response(render([answered, followers, *await services.engine.figures()]), media_type=MEDIA)


OPERATIONS = (
    look("/healthz", "healthz", healthz, "The process answers", {200: HealthBody}, Permission.PUBLIC),
    look("/readyz", "readyz", readyz, "The store answers", {200: HealthBody}, Permission.PUBLIC),
    look("/workers", "list_workers", list_workers, "Registered workers", {200: WorkerList}),
    look(
        "/audit",
        "list_audit",
        list_audit,
        "Who did what through this API",
        {200: AuditPage},
        Permission.AUDIT,
        query=AuditQuery,
    ),
    look("/openapi.json", "describe", describe, "This API, as OpenAPI 3.1", {200: dict[str, Any]}),
    look("/metrics", "metrics", metrics, "Figures for Prometheus", {200: str}, media="text/plain"),
)
