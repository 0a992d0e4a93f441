"""Applies commits: plain commits and simple moves on fast paths, all others on the general one."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.workers import Claimant
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.sql.shapes import is_finish, is_park, is_plain

_KNOWN_MAX = 10_000  # more runs than a process has at a time
_UNKNOWN = (None, calls.RunNumber(b""))


async def apply(database: PostgresDatabase, commits: Sequence[Commit], claimant: Claimant | None) -> list[Applied]:
    """Apply each commit under its own fence, all in one transaction and one round trip."""
    if len(commits) == 1:
        return [await _apply_single(database, commits[0], claimant)]
    plain, moving, rest = _sorted(commits)
    for commit in (*moving, *rest) if database.known else ():
        database.known.pop(commit.run_id, None)
    places = {commit.run_id: place for place, commit in enumerate(commits)} if rest and (plain or moving) else None
    advanced, moved, judged = await database.write(
        calls.APPLY,
        [calls.plain_out(commit) for commit in plain] or None,
        [calls.commit_out(commit) for commit in moving] or None,
        [calls.commit_out(commit) for commit in rest],
        places,
        claimant,
    )
    answers = {run_id: Applied(Verdict.APPLIED, False, revision) for run_id, revision in advanced}
    answers |= {run_id: Applied(Verdict.APPLIED, False, revision, is_awake) for run_id, revision, is_awake in moved}
    missing = [commit for commit in (*plain, *moving) if commit.run_id not in answers]
    unsettled = [*rest, *missing]
    if places is not None:
        unsettled.sort(key=lambda commit: places[commit.run_id])
    others = {id(commit): applied for commit, applied in zip(unsettled, judged, strict=True)}
    return [others.get(id(commit)) or answers[commit.run_id] for commit in commits]


async def _apply_single(database: PostgresDatabase, commit: Commit, claimant: Claimant | None) -> Applied:
    if is_plain(commit):
        revision = await _advance(database, commit)
        if revision is not None:
            return Applied(Verdict.APPLIED, False, revision)
    database.known.pop(commit.run_id, None)
    if is_finish(commit):
        _, _, judged = await database.write(calls.FINISH, calls.commit_out(commit))
        return judged[0]
    _, _, judged = await database.write(calls.APPLY, None, None, [calls.commit_out(commit)], None, claimant)
    return judged[0]


def _sorted(commits: Sequence[Commit]) -> tuple[list[Commit], list[Commit], Sequence[Commit]]:
    """The plain commits, the simple moves, and the others."""
    if len({commit.run_id for commit in commits}) < len(commits):
        return [], [], commits  # the second commit of a run depends on the result of the first
    plain: list[Commit] = []
    moving: list[Commit] = []
    rest: list[Commit] = []
    for commit in commits:
        if is_plain(commit):
            plain.append(commit)
        elif is_finish(commit) or is_park(commit):
            moving.append(commit)
        else:
            rest.append(commit)
    if moving and any(child.key is not None for commit in rest for child in commit.children):
        return plain, [], [commit for commit in commits if not is_plain(commit)]  # an earlier end may free the key
    return plain, moving, rest


async def _advance(database: PostgresDatabase, commit: Commit) -> int | None:
    """The new revision of the run; None if the run is not in the expected state."""
    if commit.names or len(commit.entries) > 1:
        advanced = await database.put(calls.ADVANCE, [calls.plain_out(commit)])
        return dict(advanced).get(commit.run_id)
    fence, run = database.known.get(commit.run_id, _UNKNOWN)
    if fence == commit.fence:
        revision = await database.put_one(calls.ADVANCE_KNOWN, calls.known_out(commit, run))
        if revision is not None:
            return revision
    found = await database.put_one(calls.ADVANCE_ONE, calls.one_out(commit))
    if found is None:
        return None
    if len(database.known) >= _KNOWN_MAX:
        database.known.clear()
    revision, run = found
    database.known[commit.run_id] = commit.fence, run
    return revision
