"""Repairs: an operator takes a run back to a step, supplies a result, lets it go on, or forks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from stepwell.advice import Advice, Verb
from stepwell.engine import repair_drafts
from stepwell.engine.backend import Backend
from stepwell.engine.forks import make_fork
from stepwell.engine.repair_drafts import Draft, locate
from stepwell.engine.repair_plans import RepairPlan, RepairVerb, describe
from stepwell.engine.skips import NO_RESULT, Skip, fit, rehearse_draft
from stepwell.engine.starts import encode_input, input_place
from stepwell.errors import (
    AlreadyExistsError,
    InvalidMoveError,
    RepairConflictError,
    RunHeldError,
    StepwellError,
    UnknownWorkflowError,
)
from stepwell.ids import RunId
from stepwell.model.amendments import AMENDABLE, Amended
from stepwell.model.runs import Run, normal_key
from stepwell.model.states import ENDS_FOR_GOOD, RunStatus
from stepwell.redaction import redact
from stepwell.stores.base.views import Detail

TRIES_MAX = 5  # plans, while the run changes under them
UNCHANGED: Any = object()

VersionChoice = Literal["same", "new"]


class Repairs:
    """`engine.repairs`: lets failed runs go on, and changes what is recorded.

    Each verb is one transaction and leaves an audit row. Those that give a plan only say what they would do with
    `dry_run`.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    # --- going on as it is ---

    async def retry(self, target: str, *, by: str = "") -> bool:
        """Let a failed run go on from the step that failed, with a fresh budget of attempts.

        False if it has not failed, or if another active run has its key.
        """
        run = await self._backend.get(target)
        act = self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.retry(run.run_id, by=by, act=act))

    async def resume_rollback(self, target: str, *, by: str = "") -> bool:
        """Go on with a stalled rollback from the compensation that failed. Calling it twice is a no-op."""
        run = await self._backend.get(target)
        act = self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.resume_rollback(run.run_id, by=by, act=act))

    # --- changing the record ---

    async def rewind(
        self, target: str, path: str, *, by: str = "", reason: str = "", dry_run: bool = False
    ) -> RepairPlan:
        """Take a run back to a step: that one, and all that was recorded after it, is forgotten and done again.

        A path inside a loop or map takes back the whole of it; "/" takes back everything. What is forgotten is not
        undone: the plan names the steps that could be. Signals that were received stay consumed, timers begin anew,
        and children of forgotten calls are cancelled. Steps keep their idempotency keys. The run is failed, paused,
        waiting or pending: one that a worker holds is a `RunHeldError`, one that ended otherwise can be forked.
        """

        def plan(detail: Detail, _: str) -> tuple[Draft, RepairPlan]:
            draft = repair_drafts.rewind(detail, locate(detail, path), self._backend.store.now())
            return draft, describe("rewind", draft, path, self._warnings(draft))

        return await self._repair(target, "rewind", plan, by, reason, dry_run=dry_run)

    async def skip(
        self,
        target: str,
        path: str,
        result: Any = NO_RESULT,
        *,
        by: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> RepairPlan:
        """Record a result in the place of a step that failed or is to be tried again, or of a wait, and go on.

        If this engine knows the workflow, the result is checked against the step's type, and a step that has left no
        trace yet can be skipped too. A timer takes no result. What was skipped is not undone by a rollback. A place
        that has its result already is an `InvalidMoveError`.
        """

        def plan(detail: Detail, token: str) -> tuple[Draft, RepairPlan]:
            draft = repair_drafts.go_on(detail, self._backend.store.now())
            spelled = Skip(draft, self._backend.registry, self._backend.codec, token).apply(path, result)
            return draft, describe("skip", draft, spelled, self._warnings(draft))

        return await self._repair(target, "skip", plan, by, reason, dry_run=dry_run)

    async def redrive(
        self,
        target: str,
        *,
        from_path: str | None = None,
        version: VersionChoice | int = "same",
        input: Any = UNCHANGED,
        skip: str | None = None,
        result: Any = NO_RESULT,
        by: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> RepairPlan:
        """Let a failed run go on from its failure, or from `from_path`, a path as for `rewind`.

        `version` "new" is the newest one that this engine knows, or else that a live worker serves. A changed `input`
        is what the code sees from its beginning; what is kept was done with the old one, and the plan says so. `skip`
        with `result` supplies the result of one step, as the verb of that name does.
        """
        newest = await self._version_of(target, version)

        def plan(detail: Detail, token: str) -> tuple[Draft, RepairPlan]:
            if detail.run.status is not RunStatus.FAILED and from_path is None and skip is None:
                raise _refuse(detail.run, "be redriven", "a failed run, unless it says from where")
            now = self._backend.store.now()
            draft = (
                repair_drafts.go_on(detail, now)
                if from_path is None
                else repair_drafts.rewind(detail, locate(detail, from_path), now)
            )
            if newest is not None and newest != detail.run.version:
                draft.version = newest
            warnings: tuple[str, ...] = ()
            if input is not UNCHANGED:
                draft.input = self._edited(detail.run, newest, input)
                if draft.kept:
                    warnings = ("what is kept was done with the old input",)
            if skip is not None:
                Skip(draft, self._backend.registry, self._backend.codec, token).apply(skip, result)
            return draft, describe("redrive", draft, from_path, (*warnings, *self._warnings(draft)))

        return await self._repair(target, "redrive", plan, by, reason, dry_run=dry_run)

    async def fork(
        self,
        target: str,
        from_path: str,
        *,
        key: str | None = None,
        run_id: str | None = None,
        input: Any = UNCHANGED,
        by: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> RepairPlan:
        """Start a new run that begins with what another one recorded before a path; that one stays as it is.

        Any run can be forked, ended or not. The new run has its own id (`fork_id` of the plan) and key, and its own
        children: a child that the part to be copied has not waited for is an `InvalidMoveError`. What had been undone
        is done again.
        """
        fork_id = RunId(self._backend.environment.ids.uuid()) if run_id is None else RunId(normal_key(run_id))
        for _ in range(TRIES_MAX):
            detail = await self._newest_detail(target)
            draft = repair_drafts.fork_at(detail, locate(detail, from_path), self._backend.store.now())
            if input is not UNCHANGED:
                draft.input = self._edited(detail.run, None, input)
            warnings = ("what is copied was done with the old input",) if draft.input and draft.kept else ()
            plan = replace(describe("fork", draft, from_path, warnings), fork_id=fork_id, cancelled=(), left=())
            own_key = None if key is None else normal_key(key)
            fork = make_fork(draft, fork_id, own_key, self._backend.codec, by, redact(reason))
            if dry_run:
                return plan
            created = await self._backend.retrying(lambda store, fork=fork: store.runs.fork(fork))  # type: ignore[misc]
            if created is not None:
                if created.is_duplicate_id or created.run_id != fork_id:
                    raise AlreadyExistsError(f"run {created.run_id} exists already")
                return replace(plan, is_applied=True)
        raise self._conflict(target)

    # --- inside ---

    async def _repair(
        self,
        target: str,
        verb: RepairVerb,
        make: Callable[[Detail, str], tuple[Draft, RepairPlan]],
        by: str,
        reason: str,
        *,
        dry_run: bool,
    ) -> RepairPlan:
        """Plan and apply, and plan again if the run has changed in between."""
        for _ in range(TRIES_MAX):
            detail = await self._newest_detail(target)
            _check(detail.run, verb)
            token = self._backend.environment.ids.uuid()
            draft, plan = make(detail, token)
            if dry_run:
                return plan
            amendment = draft.amendment(token, verb, by, redact(reason))._replace(announce=self._backend.announce)
            amended = await self._backend.retrying(lambda store, it=amendment: store.runs.amend(it))  # type: ignore[misc]
            if amended is Amended.APPLIED:
                return replace(plan, is_applied=True)
            if amended is Amended.KEY_TAKEN:
                raise AlreadyExistsError(
                    f"another active run has the key {detail.run.key!r} of run {detail.run.run_id}",
                    fix="let that one end first, or fork this one",
                )
        raise self._conflict(target)

    async def _newest_detail(self, target: str) -> Detail:
        """A run that was continued stands for the one that continues it."""
        detail = await self._backend.detail(target)
        while detail.run.successor is not None:
            detail = await self._backend.detail(detail.run.successor)
        return detail

    @staticmethod
    def _conflict(target: str) -> RepairConflictError:
        return RepairConflictError(
            f"run {target} changed {TRIES_MAX} times between the plan and the repair",
            why="somebody else works on it at the same time",
            fix="pause it first, or try again",
        )

    async def _version_of(self, target: str, wanted: VersionChoice | int) -> int | None:
        if wanted == "same":
            return None
        if isinstance(wanted, int):
            return wanted
        name = (await self._newest_detail(target)).run.workflow
        try:
            return self._backend.registry.newest(name).version
        except UnknownWorkflowError:
            now, workers = (
                self._backend.store.now(),
                await self._backend.retrying(lambda store: store.views.list_workers()),
            )
            served = [one.partition("@") for each in workers if each.lease_until > now for one in each.definitions]
            versions = [int(version) for workflow, _, version in served if workflow == name]
            if not versions:
                raise
            return max(versions)

    def _edited(self, run: Run, version: int | None, value: Any) -> bytes:
        known = self._backend.registry.find(f"{run.workflow}@{run.version if version is None else version}")
        place = input_place(run.workflow, run.run_id)
        if known is None:
            return self._backend.codec.encode(value, place=place)
        fitting = (
            fit(self._backend.codec, value, known.input_hint, place)
            if known.takes_input and value is not None
            else value
        )
        return encode_input(self._backend.codec, known, fitting, run.run_id)

    def _warnings(self, draft: Draft) -> tuple[str, ...]:
        """What a rehearsal says, if the workflow is known here."""
        run = draft.future()
        known = self._backend.registry.find(f"{run.workflow}@{run.version}")
        if known is None:
            return ()
        try:
            problem: StepwellError | None = rehearse_draft(known, draft, self._backend.codec).problem
        except StepwellError as error:
            problem = error
        if problem is None:
            return ()
        return (f"it would be paused again: {problem.code} {problem.title}",)


def _check(run: Run, verb: RepairVerb) -> None:
    """Raise unless the run is in a state in which its record may change."""
    if run.owner is not None:
        raise RunHeldError(
            f"run {run.run_id} is held by a worker",
            where=run.run_id,
            why=f"it is {run.status.value}, and goes on while you look",
            fix=Advice(Verb.PAUSE, run.run_id, note="pause it first"),
        )
    if run.status in ENDS_FOR_GOOD:
        raise InvalidMoveError(
            f"run {run.run_id} is {run.status.value}, and stays so",
            where=run.run_id,
            fix=Advice(Verb.FORK, run.run_id, note="start a new run from its record"),
        )
    is_undoing = run.cause is not None and run.status is not RunStatus.FAILED
    if run.debounced_until is not None or run.status not in AMENDABLE or is_undoing:
        raise _refuse(run, f"be changed by {verb}", "a run that is failed, paused, waiting or pending")


def _refuse(run: Run, what: str, needs: str) -> InvalidMoveError:
    undoing = run.status is RunStatus.COMPENSATION_FAILED or run.cause is not None
    fix = Advice(Verb.RESUME_ROLLBACK if undoing else Verb.WHY, run.run_id)
    return InvalidMoveError(
        f"run {run.run_id} is {run.status.value} and cannot {what}", where=run.run_id, why=f"it takes {needs}", fix=fix
    )
