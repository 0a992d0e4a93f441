"""--where: one act on many runs, counted, tried dry, confirmed, and stopped half-way."""

from __future__ import annotations

import asyncio
import io
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stepwell import Engine
from stepwell.engine import bulk_workflow
from stepwell.engine.bulk_verbs import BulkVerb
from tests.edges.conftest import Cli, Shop

T = TypeVar("T")


def test_a_dry_run_says_which_and_changes_nothing(cli: Cli, db: Shop) -> None:
    said = cli("cancel", "--where", "status:active", "--dry-run", "--db", db.url, "-o", "json").json

    assert (said["schema"], said["dry_run"], said["matched"]) == ("stepwell.bulk/1", True, 3)
    assert said["statuses"] == {"waiting": 1, "paused": 1, "compensation_failed": 1}
    assert set(said["sample"]) == {db.ids[name] for name in ("approval", "confused", "stuck")}
    assert db.status("approval-1").status == "waiting"
    words = cli("cancel", "--where", "status:active", "--dry-run", "--db", db.url).out
    assert words.startswith("3 runs match (newest ")
    assert db.ids["stuck"] in words


def test_without_a_person_nothing_is_done_unless_it_is_said(cli: Cli, db: Shop) -> None:
    said = cli("cancel", "--where", "status:waiting", "--db", db.url)

    assert said.code == 2
    assert "1 run matches; nothing done" in said.err
    assert db.status("approval-1").status == "waiting"


def test_what_cannot_be_done_is_told_and_is_exit_code_10(cli: Cli, shop_anywhere: Shop) -> None:
    words = ["cancel", "--where", "status:active,failed", "--yes", "--reason", "closing", "--db", shop_anywhere.url]
    said = cli(*words, "-o", "json")

    outcomes = {item["run_id"]: item["outcome"] for item in said.json["items"]}
    ids = shop_anywhere.ids
    assert said.code == 10
    assert (said.json["matched"], said.json["done"], said.json["refused"]) == (4, 2, 2)
    assert outcomes[ids["approval"]] == outcomes[ids["confused"]] == "done"
    assert outcomes[ids["stuck"]] == outcomes[ids["declined"]] == "refused"
    assert shop_anywhere.status("approval-1").reason == "closing"


@pytest.mark.parametrize(
    ("verb", "where", "status"),
    [
        (["retry"], "status:failed", "pending"),
        (["resume"], "status:paused", "pending"),
        (["rollback", "resume"], "status:compensation_failed", "compensating"),
    ],
)
def test_every_steering_verb_takes_a_filter(
    cli: Cli, shop_anywhere: Shop, verb: list[str], where: str, status: str
) -> None:
    said = cli(*verb, "--where", where, "-y", "--db", shop_anywhere.url)
    again = cli(*verb, "--where", where, "-y", "--db", shop_anywhere.url)

    words = said.out.partition(" · ")[2].partition(":")[0]
    assert (said.code, said.err) == (0, f"{words}: 1 of 1\n")
    assert said.out.endswith(": 1 of 1\n")
    assert cli("ls", "--where", f"status:{status}", "-o", "ids", "--db", shop_anywhere.url).out.count("\n") == 1
    assert (again.code, again.out) == (0, "No runs match.\n")


def test_ids_come_from_standard_input(cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = cli("ls", "-o", "ids", "--where", "status:waiting,completed", "--db", db.url).out
    monkeypatch.setattr(sys, "stdin", io.StringIO(ids))

    said = cli("cancel", "-", "--db", db.url)

    assert said.code == 10
    assert f"Cancelled: 1 of 2 · 1 cannot be cancelled ({db.ids['checkout']} is completed)" in said.out


def test_a_run_and_a_filter_or_neither_is_wrong_usage(cli: Cli, db: Shop) -> None:
    assert cli("retry", "declined-1", "--where", "status:failed", "--db", db.url).code == 2
    assert cli("retry", "--db", db.url).code == 2
    assert cli("retry", "--where", "status:faild", "--yes", "--db", db.url).code == 2


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code", "status"), [("y\n", 0, "cancelled"), ("n\n", 130, "waiting")])
def test_a_person_is_asked(
    cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, status: str
) -> None:
    monkeypatch.setattr(sys, "stdin", _Terminal(answer))

    said = cli("cancel", "--where", "status:waiting", "--db", db.url)

    assert (said.code, db.status("approval-1").status) == (code, status)
    assert "1 run matches (newest " in said.err
    assert "Continue? [y/N]" in said.err


def test_stopped_by_ctrl_c_it_tells_what_was_done_and_leaves_the_rest(tmp_path: Path) -> None:
    url, ids = waiting_runs(tmp_path)
    with cancelling(url, tmp_path) as process:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]

    assert process.returncode == 130, said
    assert "bulk-1 · Cancelled: 20 of 50 · stopped: 30 not reached" in said
    (bulk,) = asyncio.run(ask(url, lambda engine: engine.bulks.list()))
    assert (bulk.state, bulk.done, bulk.matched) == ("aborted", 20, 50)
    assert len(asyncio.run(ask(url, lambda engine: engine.runs.list("workflow:nap status:pending")))) == len(ids) - 20


def test_killed_half_way_it_is_gone_on_with(tmp_path: Path, cli: Cli) -> None:
    url, ids = waiting_runs(tmp_path)
    with cancelling(url, tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = len(asyncio.run(ask(url, lambda engine: engine.runs.list("workflow:nap status:pending"))))
    assert 0 < left < len(ids)

    said = cli("bulk", "resume", "1", "--db", url, "-o", "json")

    assert said.code == 0, said.err
    assert (said.json["matched"], said.json["done"], said.json["refused"]) == (50, 50, 0)
    assert {item["run_id"]: item["outcome"] for item in said.json["items"]} == dict.fromkeys(ids, "done")
    over = cli("bulk", "resume", "bulk-1", "--db", url, "-o", "json")
    assert (over.code, over.error["message"]) == (5, "bulk-1 has ended")


def waiting_runs(folder: Path) -> tuple[str, list[str]]:
    """A database of fifty runs that nobody executes."""
    url = f"sqlite:///{folder / 'many.db'}"

    async def start(engine: Engine) -> list[str]:
        return [(await engine.runs.start_by_name("nap", 1)).run_id for _ in range(50)]

    return url, asyncio.run(ask(url, start))


async def ask(url: str, question: Callable[[Engine], Awaitable[T]]) -> T:
    async with Engine(url, worker=False) as engine:
        return await question(engine)


@contextmanager
def cancelling(url: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that cancels them all, and stands in the middle of the first chunk until it gets a signal."""
    marker = folder / "in the middle"
    code = f"""
import asyncio, pathlib, signal, sys
from stepwell.engine.runs import Runs
signal.signal(signal.SIGINT, signal.default_int_handler)  # which whoever runs these tests may have ignored
cancel, count = Runs.cancel, 0
async def slow(self, *args, **options):
    global count
    count += 1
    if count == 10:
        pathlib.Path({str(marker)!r}).touch()
        await asyncio.sleep(2)
    return await cancel(self, *args, **options)
Runs.cancel = slow
from stepwell.cli.main import main
sys.argv[1:] = ["cancel", "--where", "status:active", "--yes", "--db", {url!r}]
sys.exit(main())
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as process:
        try:
            while not marker.exists() and process.poll() is None:
                time.sleep(0.02)
            assert process.poll() is None, process.communicate()[0]
            yield process
        finally:
            process.kill()


# --- what is kept of it ---


def test_an_act_on_many_runs_is_on_record(cli: Cli, shop_anywhere: Shop) -> None:
    url, ids = shop_anywhere.url, shop_anywhere.ids
    assert cli("bulk", "ls", "--db", url, "-o", "json").json["bulks"] == []
    said = cli("cancel", "--where", "status:active,failed", "--yes", "--db", url, "-o", "json").json

    assert said["bulk"] == "bulk-1"
    (listed,) = cli("bulk", "ls", "--db", url, "-o", "json").json["bulks"]
    facts = {name: listed[name] for name in ("bulk", "verb", "where", "state", "matched", "done", "before", "refused")}
    assert facts == {
        "bulk": "bulk-1",
        "verb": "cancel",
        "where": "status:active,failed",
        "state": "done",
        "matched": 4,
        "done": 2,
        "before": 0,
        "refused": 2,
    }
    shown = cli("bulk", "show", "bulk-1", "--db", url, "-o", "json").json
    assert {item["run_id"]: item["outcome"] for item in shown["items"]} == {
        ids["approval"]: "done",
        ids["confused"]: "done",
        ids["stuck"]: "refused",
        ids["declined"]: "refused",
    }
    assert cli("retry", "--where", "status:failed", "-y", "--db", url).out.startswith("bulk-2 · Retry")
    assert [line.split("\t")[0] for line in cli("bulk", "ls", "--db", url).out.splitlines()] == [
        "BULK",
        "bulk-2",
        "bulk-1",
    ]
    assert "2 refused" in cli("bulk", "show", "1", "--db", url).out


def test_an_act_can_be_stopped_from_elsewhere_and_what_was_done_is_kept(
    cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_workflow, "CHUNK", 1)
    act = BulkVerb.act
    calls: list[bool] = []

    async def act_and_abort(verb: BulkVerb, engine: Any, *args: Any) -> bool:
        if not calls:
            calls.append(await engine.bulks.abort("bulk-1"))
        return await act(verb, engine, *args)

    monkeypatch.setattr(BulkVerb, "act", act_and_abort)
    said = cli("cancel", "--where", "status:waiting,paused", "--yes", "--db", db.url, "-o", "json")

    assert calls == [True]
    assert said.code == 10
    assert (said.json["matched"], len(said.json["items"])) == (2, 1)
    shown = cli("bulk", "show", "bulk-1", "--db", db.url, "-o", "json").json
    assert (shown["state"], len(shown["items"])) == ("aborted", 1)
    over = cli("bulk", "abort", "bulk-1", "--db", db.url, "-o", "json")
    assert (over.code, over.error["message"]) == (5, "bulk-1 has ended")


@pytest.mark.parametrize("name", ["bulk-7", "7", "x", "bulk-", "bulk-9" * 9])
def test_an_act_that_never_was_is_not_found(cli: Cli, db: Shop, name: str) -> None:
    for verb in ("show", "abort", "resume"):
        said = cli("bulk", verb, name, "--db", db.url, "-o", "json")
        assert (said.code, said.error["code"]) == (4, "SW401")
