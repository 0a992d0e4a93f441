"""Operations that examine the store, and list what needs a person."""

from __future__ import annotations

from datetime import datetime

import msgspec

from stepwell.advice import in_requests
from stepwell.http.advice import AdviceBody, advice_bodies
from stepwell.http.operations import Call, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.model.states import RunStatus
from stepwell.stores.base.diagnosis import Finding, Remedy, Verdict, worst


class DoctorQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`whole` also runs the checks that read the whole file and the whole audit; `store=false` leaves out all checks of
    the store.
    """

    whole: bool = False
    store: bool = True


class ExampleBody(msgspec.Struct):
    """One of the runs that a finding is about: where it is and why, since when, and what to do about it."""

    run_id: str
    key: str | None
    workflow: str
    version: int
    status: RunStatus
    where: str
    why: str
    since: datetime
    advice: AdviceBody


class FindingBody(msgspec.Struct):
    """What one check found. `filter` lists the runs that it is about, `runs` of them were counted, and `examples` are
    some of them.

    `remedy` is what `stepwell doctor --fix` would do about it.
    """

    check: str
    verdict: Verdict
    found: str
    why: str
    fix: str
    advice: list[AdviceBody]
    filter: str
    runs: int | None
    remedy: Remedy | None
    examples: list[ExampleBody]


class DoctorBody(msgspec.Struct):
    """An examination: the worst verdict, and the findings about the store and about what needs a person.

    `store` is empty for a caller that may not control runs: it names files and hosts.
    """

    verdict: Verdict
    checked_at: datetime
    is_quick: bool
    store: list[FindingBody]
    needs: list[FindingBody]


class RecoveredBody(msgspec.Struct):
    """How many runs of dead workers were released, and how many runs need a person."""

    freed: int
    paused: int
    stalled_rollbacks: int


async def examine(call: Call) -> Reply:
    """What is wrong with the store, and what needs a person."""
    query: DoctorQuery = call.query
    diagnosis = call.services.engine.diagnosis
    found = await (diagnosis.examine(is_quick=not query.whole) if query.store else diagnosis.examine_needs())
    shown = found.of_store if call.caller.may(Permission.STEER) else ()
    store, needs = ([_body(one) for one in findings] for findings in (shown, found.needs))
    return Reply(DoctorBody(worst((*shown, *found.needs)), found.checked_at, found.is_quick, store, needs))


def _body(one: Finding) -> FindingBody:
    fix = in_requests(one.advice) or one.fix
    advice = advice_bodies(one.advice)
    examples = [
        ExampleBody(
            run.run_id,
            run.key,
            run.workflow,
            run.version,
            RunStatus(run.status),
            run.where,
            run.why,
            run.since,
            AdviceBody(**run.advice.as_http()),
        )
        for run in one.examples
    ]
    return FindingBody(
        one.check, one.verdict, one.found, one.why, fix, advice, one.filter, one.runs, one.remedy, examples
    )


async def recover(call: Call) -> Reply:
    """Release the runs of dead workers."""
    found = await call.services.engine.workers.recover()
    call.after = f"freed {found.freed}"
    return Reply(RecoveredBody(*found))


OPERATIONS = (
    look(
        "/doctor",
        "examine",
        examine,
        "What is wrong with the store, and what needs a person",
        {200: DoctorBody},
        query=DoctorQuery,
    ),
    steer("/workers/recover", "recover_runs", recover, "Release the runs of dead workers now", RecoveredBody),
)
