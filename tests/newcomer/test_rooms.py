"""Parts of `stepwell dev` that need no process: its clock, its slots, what a change is called, what is typed."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell import Context, SyncEngine, workflow
from stepwell.addresses import open_store
from stepwell.cli.dev import keys
from stepwell.cli.dev.child import FailedOnPurpose, Fault
from stepwell.cli.dev.clock import SkippedClock, clock_file, environment_of, read_skipped, write_skipped
from stepwell.cli.dev.keys import Question
from stepwell.cli.dev.outlines import compare, outline, step_names
from stepwell.cli.dev.places import Place
from stepwell.cli.dev.recovery import Recovered
from stepwell.cli.dev.reloads import Watch
from stepwell.cli.dev.samples import sample_start
from stepwell.cli.dev.server import listen
from stepwell.cli.main import main
from stepwell.cli.settings import Settings
from stepwell.clock import SECOND, Span
from stepwell.errors import InvalidOptionError
from stepwell.wiring import Engine

Steps = list[tuple[str, str]]


def test_skipped_time_is_kept_beside_the_database_and_every_process_agrees(tmp_path: Path) -> None:
    database = tmp_path / "dev.db"
    before = SkippedClock(Span(0)).now()
    assert read_skipped(database) == 0

    write_skipped(database, Span(90 * SECOND))

    assert environment_of(f"sqlite:///{database}").clock.now() - before >= 90 * SECOND


@pytest.mark.parametrize("text", ["", "soon", "-5", "9" * 30, "\xff"])
def test_a_note_that_cannot_be_read_skips_nothing(tmp_path: Path, text: str) -> None:
    clock_file(tmp_path / "dev.db").write_bytes(text.encode("latin-1"))

    assert read_skipped(tmp_path / "dev.db") == 0


def test_a_clock_is_never_put_back() -> None:
    clock = SkippedClock(Span(50))

    clock.skip_to(Span(20))

    assert clock.skipped == 50


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([("step", "a")], [("step", "a"), ("step", "b")], ["step b (added)"]),
        ([("step", "a"), ("sleep", "b")], [("step", "a")], ["sleep b (removed)"]),
        ([("step", "a"), ("step", "b")], [("step", "a"), ("step", "c")], ["step b → c (renamed)"]),
        ([("step", "a")], [("sleep", "a")], ["step a (removed)", "sleep a (added)"]),
        ([("step", "a"), ("step", "b")], [("step", "b"), ("step", "a")], ["step b (added)", "step b (removed)"]),
        ([("step", "a")], [("step", "a")], []),
    ],
)
def test_a_change_is_told_by_what_was_added_removed_and_renamed(before: Steps, after: Steps, words: list[str]) -> None:
    assert [one.words for one in compare({"order": before}, {"order": after})] == words


def test_workflows_come_and_go() -> None:
    assert [one.words for one in compare({"old": []}, {"new": []})] == ["old (removed)", "new (added)"]


async def reserve(order: str) -> None: ...


@dataclasses.dataclass
class Box:
    label: str
    weight: float
    note: str = ""


@workflow
async def packing(ctx: Context, box: Box) -> None:
    await ctx.step(reserve, box.label)
    await ctx.sleep("rest", "1s")
    await ctx.step("label", reserve, box.label)


@workflow
async def counting(ctx: Context, boxes: list[Box]) -> None: ...


@workflow
async def idling(ctx: Context) -> None: ...


def test_an_outline_is_what_stands_in_the_text() -> None:
    found = outline([packing])

    assert found["packing"] == [("step", "reserve"), ("sleep", "rest"), ("step", "label")]
    assert step_names({"packing": found["packing"]}) == ["reserve", "label"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (packing, "stepwell start packing label=ann weight:=4.2"),
        (counting, "stepwell start counting @input.json"),
        (idling, "stepwell start idling"),
    ],
)
def test_a_first_line_to_type_has_an_input_of_the_right_type(given: Any, line: str) -> None:
    assert sample_start(given) == line


@pytest.mark.parametrize(
    ("typed", "answer"), [("3d\n", "3d"), ("3dd\x7f\r", "3d"), ("\n", ""), ("12\x1b", None), ("\x7f\x7f\x04", None)]
)
def test_a_question_is_answered_with_enter_and_given_up_with_escape(
    typed: str, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(keys, "_write", shown.append)
    question = Question("how far? ", lambda _: None)

    done = [question.take(key) for key in typed]

    assert done == [*([False] * (len(typed) - 1)), True]
    assert question.typed == answer
    assert shown[0] == "how far? "


def test_each_has_a_seat_of_its_own_and_gives_it_back(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path}/shop.db")
    place.prepare()
    first, second = place.take_slot(), place.take_slot()
    first.note({"url": "http://127.0.0.1:1", "worker": first.worker})
    assert (first.worker, second.worker) == ("dev-1", "dev-2")
    assert place.neighbour(second) == {"url": "http://127.0.0.1:1", "worker": "dev-1"}
    assert place.neighbour(first) == {}

    first.leave()

    again = place.take_slot()
    assert again.worker == "dev-1"
    again.leave()
    second.leave()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o002])
@pytest.mark.parametrize("is_old", [False, True])
def test_the_folder_of_its_own_is_for_its_owner_alone_whatever_the_umask_says(
    tmp_path: Path, umask: int, is_old: bool
) -> None:
    folder = tmp_path / ".stepwell"
    before = os.umask(umask)
    try:
        if is_old:
            folder.mkdir(0o777)
            (folder / "dev.db.clock").write_text("5\n")
            (folder / "dev.db.slot-1").write_text("")
        place = Place(f"sqlite:///{folder}/dev.db")
        place.prepare()
        place.take_slot().leave()
        write_skipped(folder / "dev.db", Span(7))
        with SyncEngine(f"sqlite:///{folder}/dev.db", worker=False) as engine:
            list(engine.runs.list())
            made = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    finally:
        os.umask(before)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {".gitignore", "dev.db", "dev.db.clock", "dev.db.slot-1"} <= set(made)
    assert set(made.values()) == {0o600}
    assert read_skipped(folder / "dev.db") == 7


def test_a_folder_of_somebody_else_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Place(f"sqlite:///{tmp_path}/shop.db").prepare()

    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_cannot_be_made_is_an_error_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InvalidOptionError, match="cannot write to"):
        Place(f"sqlite:///{tmp_path}/file/x/shop.db").prepare()


def test_a_saved_file_counts_once_it_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("a")
    watch = Watch()
    watch.follow([str(file)])
    assert not watch.has_changed()

    file.write_text("half a")
    assert not watch.has_changed()
    file.write_text("the whole text")
    assert not watch.has_changed()

    assert watch.has_changed()
    assert not watch.has_changed()


def test_a_file_that_is_deleted_and_written_again_is_a_change(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("a")
    watch = Watch()
    watch.follow([str(file)])
    file.unlink()
    watch.has_changed()

    assert watch.has_changed()


def test_what_was_recovered_is_told_with_the_true_figure() -> None:
    assert Recovered([]).words == "recovered 0 runs · 0 steps were run again"
    assert Recovered([("a", "continues at x")], [("1", "x")]).words == (
        "recovered 1 run · a continues at x · 1 step was run again (x: still running when the worker was killed)"
    )
    assert Recovered([("a", ""), ("b", "")]).words == "recovered 2 runs · 0 steps were run again"


@pytest.mark.parametrize(
    ("asked", "path", "is_hit"),
    [
        ("", "charge", True),
        ("charge", "charge", True),
        ("charge", "rows/~3/charge", True),
        ("charge", "recharge", False),
        (None, "charge", False),
    ],
)
def test_the_chosen_step_fails_once_whether_or_not_it_is_a_coroutine(
    asked: str | None, path: str, is_hit: bool
) -> None:
    for is_async in (True, False):
        fault = Fault()
        if asked is not None:
            fault.ask(asked)
        body: Any = SimpleNamespace(fn=len, is_async=is_async)

        assert [fault.apply(body, path), fault.apply(body, path)] == [is_hit, False]

        assert (body.fn is len) is not is_hit
        if is_hit:
            with pytest.raises(FailedOnPurpose):
                asyncio.run(body.fn()) if is_async else body.fn()


def test_a_store_in_memory_cannot_be_developed_on() -> None:
    with pytest.raises(InvalidOptionError, match="cannot be shared"):
        Place("memory:")


def test_the_next_free_port_is_taken() -> None:
    with listen(20_000) as first, listen(first.getsockname()[1]) as second:
        assert second.getsockname()[1] > first.getsockname()[1]
        assert {first.getsockname()[0], second.getsockname()[0]} == {"127.0.0.1"}


def test_in_the_folder_of_stepwell_dev_its_database_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.from_environment().db == "sqlite:///stepwell.db"
    (tmp_path / ".stepwell").mkdir()
    (tmp_path / ".stepwell" / "dev.db").touch()

    assert Settings.from_environment().db == "sqlite:///.stepwell/dev.db"

    monkeypatch.setenv("STEPWELL_DB", "memory:")
    assert (Settings.from_environment().db, Settings.from_environment().is_db_given) == ("memory:", True)


async def test_a_timer_is_due_on_a_clock_that_was_put_forward(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with Engine(url, workflows=[packing]) as engine:
        await engine.start(packing, Box("a", 1.0), key="box-1", delay="5d")
    write_skipped(tmp_path / "shop.db", Span(6 * 86_400 * SECOND))
    environment = environment_of(url)
    store = open_store(url, environment)
    await store.open()
    wake_at = await store.views.next_wake(("packing@1",))
    is_due = wake_at is not None and wake_at <= store.now()
    await store.close()
    environment.executor.close()

    assert is_due


def test_help_names_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    listed = capsys.readouterr().out
    assert "stepwell new hello" in listed
    assert "stepwell dev" in listed
