"""Operations on the ledger: the audit of this API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from stepwell.clock import to_datetime
from stepwell.http.fields import Limit
from stepwell.http.operations import Call, Reply, look
from stepwell.http.roles import Permission
from stepwell.model.ledger import ACT_LAST


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Lines with numbers below `below`."""

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


async def list_audit(call: Call) -> Reply:
    """Who did what through this API."""
    found = await call.services.ledger.list_acts(limit=call.query.limit + 1, below=call.query.below)
    page = found[: call.query.limit]
    following = page[-1].number if len(found) > len(page) else None
    return Reply(AuditPage([AuditBody(one.number, to_datetime(one.at), *one[2:]) for one in page], following))


OPERATIONS = (
    look(
        "/audit",
        "list_audit",
        list_audit,
        "Who did what through this API",
        {200: AuditPage},
        Permission.AUDIT,
        query=AuditQuery,
    ),
)
