"""Operations on workers."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.http.operations import Call, Reply, look


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


OPERATIONS = (look("/workers", "list_workers", list_workers, "Registered workers", {200: WorkerList}),)
