"""Operations about the server itself: health, metrics, and the description of the API."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from stepwell.http.operations import Call, Reply, look
from stepwell.http.roles import Permission
from stepwell.telemetry.metrics import MEDIA, Counter, Gauge, render


class HealthBody(msgspec.Struct):
    """That it is well; nothing else."""

    status: str


async def healthz(call: Call) -> Reply:
    """The process answers."""
    return Reply(HealthBody("ok"))


async def readyz(call: Call) -> Reply:
    """The store answers too."""
    await call.services.engine.probe()
    return Reply(HealthBody("ok"))


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
    look("/openapi.json", "describe", describe, "This API, as OpenAPI 3.1", {200: dict[str, Any]}),
    look("/metrics", "metrics", metrics, "Figures for Prometheus", {200: str}, media="text/plain"),
)
