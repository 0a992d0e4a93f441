"""Applying commits: those that are nothing but entries the short way, all others by judgement."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.workers import Claimant
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.database import PostgresDatabase


async def apply(database: PostgresDatabase, commits: Sequence[Commit], claimant: Claimant | None) -> list[Applied]:
    """Apply each commit under its own fence, all in one transaction and one round trip."""
    if len(commits) == 1 and calls.is_plain(commits[0]):
        revision = await _advance(database, commits[0])
        if revision is not None:
            return [Applied(Verdict.APPLIED, False, revision)]
    elif len(commits) == 1 and calls.is_finish(commits[0]):
        _, judged = await database.write(calls.FINISH, calls.commit_out(commits[0]))
        return judged
    plain = {commit.run_id: commit for commit in commits if len(commits) > 1 and calls.is_plain(commit)}
    # Of two commits of one run the second is judged by what the first made of it.
    rest = [commit for commit in commits if plain.get(commit.run_id) is not commit]
    for commit in rest:
        if plain.pop(commit.run_id, None) is not None:
            rest = list(commits)
            plain.clear()
            break
    short = [calls.plain_out(commit) for commit in plain.values()] or None
    advanced, judged = await database.write(calls.APPLY, short, list(map(calls.commit_out, rest)), claimant)
    revisions = dict(advanced)
    missing = [commit for commit in plain.values() if commit.run_id not in revisions]
    answers = {id(commit): applied for commit, applied in zip([*rest, *missing], judged, strict=True)}
    return [answers.get(id(commit)) or Applied(Verdict.APPLIED, False, revisions[commit.run_id]) for commit in commits]


async def _advance(database: PostgresDatabase, commit: Commit) -> int | None:
    """The revision of a run that was as it should be."""
    if not commit.names and len(commit.entries) == 1:
        return await database.put_one(calls.ADVANCE_ONE, calls.one_out(commit))
    advanced = await database.put(calls.ADVANCE, [calls.plain_out(commit)])
    return dict(advanced).get(commit.run_id)
