"""Repairs: an operator rewinds a run to a step, supplies a result, continues a failed run, or forks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from stepwell.advice import Advice, Verb
from stepwell.engine import repair_drafts
from stepwell.engine.backend import Backend
from stepwell.engine.forks import make_fork
from stepwell.engine.repair_drafts import Draft, find_left, locate
from stepwell.engine.repair_plans import Foresight, RepairPlan, RepairVerb, describe
from stepwell.engine.reschedules import wake_run
from stepwell.engine.skips import NO_RESULT, Skip, Skippable, fit, rehearse_draft
from stepwell.engine.starts import encode_input, input_place
from stepwell.errors import (
    AlreadyExistsError,
    InvalidMoveError,
    InvalidOptionError,
    RepairConflictError,
    RunHeldError,
    StepwellError,
    UnknownWorkflowError,
)
from stepwell.ids import RunId
from stepwell.model.amendments import AMENDABLE, Amended
from stepwell.model.run_retries import retry_of
from stepwell.model.runs import Run, normal_key
from stepwell.model.states import ENDS_FOR_GOOD, RunStatus
from stepwell.redaction import redact
from stepwell.stores.base.views import Detail

TRIES_MAX = 5  # plans, if the run keeps changing
UNCHANGED: Any = object()

VersionChoice = Literal["same", "new"]


class Repairs:
    """`engine.repairs`: continues failed runs, and changes what is recorded.

    Each verb is one transaction and leaves an audit row. With `dry_run`, a verb only returns its plan.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    # --- continuing with the record as it is ---

    async def retry(self, target: str, *, by: str = "") -> bool:
        """Continue a failed run from the step that failed, or run the steps at once that wait for their next attempt;
        with a fresh budget of attempts. A failed run whose next attempt waits begins that attempt at once.

        False if the run has not failed and no step of it waits, or if another active run has its key. A short wait
        that a worker spends in memory, or a wait inside a rollback, is not ended.
        """
        run = await self._backend.get(target)
        while run.successor is not None:
            run = await self._backend.get(run.successor)
        if run.status is RunStatus.PENDING and retry_of(run).attempt > 1:
            return await wake_run(self._backend, run.run_id, verb="retry", by=by)
        if run.status is RunStatus.WAITING:
            return await self._retry_now(run.run_id, by)
        act = self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.retry(run.run_id, by=by, act=act))

    async def resume_rollback(self, target: str, *, by: str = "") -> bool:
        """Resume an incomplete rollback at the compensation that failed. Calling it twice is a no-op."""
        run = await self._backend.get(target)
        act = self._backend.new_act()
        return await self._backend.retrying(lambda store: store.runs.resume_rollback(run.run_id, by=by, act=act))

    async def mark_undone(self, target: str, path: str, *, reason: str, by: str = "") -> bool:
        """Record that a person has undone the effect of a step, and resume the incomplete rollback without its
        compensation. The rest of the rollback runs as usual. False if the rollback is not incomplete.

        Nothing checks that the effect is gone: the reason is kept in the audit of the run. Raises `NotFoundError` for
        an unknown path, and `InvalidMoveError` if the step at this path is undone already, or cannot be undone.
        """
        why = redact(reason).strip()
        if not why:
            raise InvalidOptionError(
                "an effect is marked as undone without a reason",
                where=target,
                why="nothing else tells later how it was undone",
                fix='reason="refunded by hand, ticket 42"',
            )
        detail, act = await self._newest_detail(target), self._backend.new_act()
        if detail.run.status is not RunStatus.COMPENSATION_FAILED:
            return False
        step = find_left(detail, path)
        return await self._backend.retrying(
            lambda store: store.runs.resume_rollback(detail.run.run_id, by=by, act=act, undone=step, reason=why)
        )

    # --- changing the record ---

    async def rewind(
        self, target: str, path: str, *, by: str = "", reason: str = "", dry_run: bool = False
    ) -> RepairPlan:
        """Rewind a run to a step: drop the record of that step and of all that came after it, and run it again.

        A path inside a loop or map rewinds all of it; "/" rewinds the whole run. Dropped steps are not undone: the
        plan names the steps that have a compensation. Received signals stay consumed, timers start again, and
        children of dropped calls are cancelled. Steps keep their idempotency keys. The run must be failed, paused,
        waiting or pending. Raises `RunHeldError` while a worker executes it. A run that ended otherwise can be forked.
        """

        def plan(detail: Detail, _: str) -> tuple[Draft, RepairPlan]:
            draft = repair_drafts.rewind(detail, locate(detail, path), self._backend.store.now())
            return draft, describe("rewind", draft, path, self._rehearse(draft))

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
        """Record a result for a step that failed or will be retried, or for a wait, and continue the run.

        If this engine knows the workflow, the result is checked against the type of the step, and a step that has not
        begun yet can be skipped too. A timer takes no result. A rollback does not undo a skipped step. Raises
        `InvalidMoveError` if the step or wait already has its result.
        """

        def plan(detail: Detail, token: str) -> tuple[Draft, RepairPlan]:
            draft = repair_drafts.go_on(detail, self._backend.store.now())
            spelled = Skip(draft, self._backend.registry, self._backend.codec, token).apply(path, result)
            return draft, describe("skip", draft, spelled, self._rehearse(draft))

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
        """Continue a failed run from its failure, or from `from_path`, a path as for `rewind`.

        `version="new"` selects the newest version that this engine knows, or else that a live worker serves. The code
        sees a changed `input` from its beginning; steps that are kept ran with the old input, and the plan warns of
        it. `skip` with `result` supplies the result of one step, as the verb `skip` does.
        """
        newest = await self._version_of(target, version)

        def plan(detail: Detail, token: str) -> tuple[Draft, RepairPlan]:
            if detail.run.status is not RunStatus.FAILED and from_path is None and skip is None:
                raise _refuse(detail.run, "be redriven", "a failed run, or a path to start from")
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
                    warnings = ("steps that are kept ran with the old input",)
            if skip is not None:
                Skip(draft, self._backend.registry, self._backend.codec, token).apply(skip, result)
            seen = self._rehearse(draft)
            return draft, describe("redrive", draft, from_path, seen._replace(warnings=(*warnings, *seen.warnings)))

        return await self._repair(target, "redrive", plan, by, reason, dry_run=dry_run)

    async def fork(
        self,
        target: str,
        from_path: str,
        *,
        key: str | None = None,
        run_id: str | None = None,
        version: VersionChoice | int = "same",
        input: Any = UNCHANGED,
        by: str = "",
        reason: str = "",
        dry_run: bool = False,
    ) -> RepairPlan:
        """Start a new run from what another run recorded before a path. The other run does not change.

        Any run can be forked, ended or not. The new run has its own id (`fork_id` of the plan), key and children.
        `version` is chosen as for `redrive`; the plan warns if the copied part does not fit the code of that version.
        Steps that were undone run again. Raises `InvalidMoveError` if the copied part has started a child and not
        waited for it.
        """
        chosen = await self._version_of(target, version)
        fork_id = RunId(self._backend.environment.ids.uuid()) if run_id is None else RunId(normal_key(run_id))
        for _ in range(TRIES_MAX):
            detail = await self._newest_detail(target)
            draft = repair_drafts.fork_at(detail, locate(detail, from_path), self._backend.store.now())
            if chosen is not None and chosen != detail.run.version:
                draft.version = chosen
            if input is not UNCHANGED:
                draft.input = self._edited(detail.run, chosen, input)
            warnings: tuple[str, ...] = ("copied steps ran with the old input",) if draft.input and draft.kept else ()
            seen = self._rehearse(draft, "the new run would be paused")
            seen = seen._replace(warnings=warnings + seen.warnings)
            plan = replace(describe("fork", draft, from_path, seen), fork_id=fork_id, cancelled=(), left=())
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

    async def list_skippable(self, target: str) -> Skippable:
        """The steps and waits of a run that `skip` can supply a result for now, each with the type of the result.

        Where the workflow is not registered, types are not known, nor are steps that have not begun.
        """
        detail = await self._newest_detail(target)
        try:
            _check(detail.run, "skip")
        except StepwellError as error:
            return Skippable(detail.run.run_id, (), error.title)
        draft = repair_drafts.go_on(detail, self._backend.store.now())
        places = Skip(draft, self._backend.registry, self._backend.codec, "").places()
        return Skippable(
            detail.run.run_id, tuple(places), "" if places else "it neither waits nor has failed at a step"
        )

    # --- inside ---

    async def _retry_now(self, run_id: RunId, by: str) -> bool:
        """End the waits of steps for their next attempt; whether there was one."""
        token = self._backend.environment.ids.uuid()
        for _ in range(TRIES_MAX):
            detail = await self._backend.detail(run_id)
            draft = repair_drafts.retry_now(detail, self._backend.store.now())
            if draft is None:
                return False
            amendment = draft.amendment(token, "retry", by, "")
            amended = await self._backend.retrying(lambda store, it=amendment: store.runs.amend(it))  # type: ignore[misc]
            if amended is Amended.APPLIED:
                return True
        raise self._conflict(run_id)

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
        """Plan and apply the repair, and plan again if the run has changed in between."""
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
                    fix="let that run end first, or fork this one",
                )
        raise self._conflict(target)

    async def _newest_detail(self, target: str) -> Detail:
        """The newest run of a chain that continues as new."""
        detail = await self._backend.detail(target)
        while detail.run.successor is not None:
            detail = await self._backend.detail(detail.run.successor)
        return detail

    @staticmethod
    def _conflict(target: str) -> RepairConflictError:
        return RepairConflictError(
            f"run {target} changed {TRIES_MAX} times between the plan and the repair",
            why="another person or a worker changes it at the same time",
            fix="pause it first, or try again",
        )

    async def _version_of(self, target: str, wanted: VersionChoice | int) -> int | None:
        if wanted == "same":
            return None
        if wanted != "new":
            return _check_version(wanted)
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

    def _rehearse(self, draft: Draft, paused: str = "it would be paused again") -> Foresight:
        """What a dry replay shows, if the workflow is known here."""
        run = draft.future()
        known = self._backend.registry.find(f"{run.workflow}@{run.version}")
        if known is None:
            return Foresight()
        try:
            seen = rehearse_draft(known, draft, self._backend.codec)
        except StepwellError as error:
            return Foresight(True, (_problem(paused, error),))
        if seen.problem is not None:
            return Foresight(True, (_problem(paused, seen.problem),))
        return Foresight(True, (), seen.asks, seen.waits)


def _problem(paused: str, problem: StepwellError) -> str:
    return f"{paused}: {problem.code} {problem.title}"


def _check_version(wanted: Any) -> int:
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted < 1 << 31:
        raise InvalidOptionError(
            f"version is {wanted!r:.60}",
            why="a run continues with the version that it has, with the newest one, or with a number",
            fix='version="same", version="new" or version=2',
        )
    return wanted


def _check(run: Run, verb: RepairVerb) -> None:
    """Raise unless the status of the run allows a change of its record."""
    if run.owner is not None:
        raise RunHeldError(
            f"run {run.run_id} is being executed by a worker",
            where=run.run_id,
            why=f"it is {run.status.value}, and its record may change at any moment",
            fix=Advice(Verb.PAUSE, run.run_id, note="pause it first"),
        )
    if run.status in ENDS_FOR_GOOD:
        raise InvalidMoveError(
            f"run {run.run_id} is {run.status.value}, and cannot be reopened",
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
