"""Operations about the server itself: health, metrics, and the description of the API."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from stepwell.http.operations import Call, Reply, look
from stepwell.http.roles import Permission
from stepwell.telemetry.metrics import MEDIA, Counter, Gauge, render


class IndexBody(msgspec.Struct):
    """What this API is, with links to its parts."""

    name: str
    version: str
    description: str
    links: dict[str, str]


class HealthBody(msgspec.Struct):
    """The health of the server."""

    status: str


# Relative to the path of the index, because the application may be mounted below another one.
_LINKS: Final = {
    "openapi": "openapi.json",
    "runs": "runs",
    "workflows": "workflows",
    "workers": "workers",
    "bulks": "bulks",
    "holds": "holds",
    "metrics": "metrics",
    "health": "../healthz",
    "ready": "../readyz",
}


async def index(call: Call) -> Reply | Response:
    """What this API is: as a page for browsers, as JSON for programs."""
    info = call.services.document["info"]
    body = IndexBody(info["title"], info["version"], info["description"], _LINKS)
    if "text/html" not in call.headers.get("accept", ""):
        return Reply(body)
    items = "".join(f'<li><a href="{path}">{name}</a></li>' for name, path in body.links.items())
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{body.name}</title><h1>{body.name} '
        f"{body.version}</h1><p>{body.description} The OpenAPI document describes every request.</p>"
        f"<ul>{items}</ul></html>"
    )
    return Response(page, media_type="text/html")


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
    """Metrics for Prometheus."""
    services = call.services
    answered = Counter("stepwell_http_requests_total", "Requests that were answered.", ("operation", "status"))
    for (name, status), count in services.requests.items():
        answered.add(name, str(status), count=count)
    followers = Gauge("stepwell_http_followers", "Streams of changes that are open.", {(): services.followers})
    return Response(render([answered, followers, *await services.engine.figures()]), media_type=MEDIA)


OPERATIONS = (
    look("/", "index", index, "What this API is, with links", {200: IndexBody}),
    look("/healthz", "healthz", healthz, "The process answers", {200: HealthBody}, Permission.PUBLIC),
    look("/readyz", "readyz", readyz, "The store answers", {200: HealthBody}, Permission.PUBLIC),
    look("/openapi.json", "describe", describe, "This API, as OpenAPI 3.1", {200: dict[str, Any]}),
    look("/metrics", "metrics", metrics, "Metrics for Prometheus", {200: str}, media="text/plain"),
)
