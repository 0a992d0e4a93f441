"""Golden histories: what earlier releases recorded is read and replayed for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.check import dry, histories
from stepwell.check.dry import Divergence, Fits
from stepwell.model.states import TERMINAL, EntryKind, WaitKind
from tests.check.golden import FOLDER, make
from tests.check.golden_flows import FLOWS

pytestmark = pytest.mark.filterwarnings("ignore:repeat= has no effect")  # histories of runs that were given it

FILES = sorted(FOLDER.glob("*.json"))


def flow_of(file: Path) -> Any:
    return FLOWS[file.name.partition(".")[0]][0]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_what_was_recorded_once_is_replayed_for_ever(file: Path):
    recording = histories.read(file)

    found = dry.replay(flow_of(file), recording)

    assert isinstance(found, Fits), found.words
    assert found.unable == ()
    assert found.is_ended == (recording.run.status in TERMINAL)
    waiting = {wait["path"] for wait in json.loads(file.read_text())["history"].get("waits", [])}
    if recording.run.status not in TERMINAL:
        assert set(found.waits) == waiting


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_other_code_is_told_apart(file: Path):
    @workflow(name="nothing")
    async def nothing(ctx: Context) -> None:
        return None

    recording = histories.read(file)
    if recording.run.status.value == "compensating":
        return  # its forward code is passed already; what undoes it is known by name
    assert isinstance(dry.replay(nothing, recording), Divergence)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_file_is_written_back_as_it_was_read(file: Path):
    assert json.loads(file.read_text())["schema"] == f"stepwell.history-file/{file.suffixes[0].removeprefix('.v')}"
    assert histories.dump(histories.read(file)) == file.read_bytes()


def test_every_workflow_has_its_file():
    assert {file.name.partition(".")[0] for file in FILES} == set(FLOWS)


def test_every_kind_of_entry_and_wait_is_there():
    recordings = [histories.read(file) for file in FILES]

    # No operation of `Context` records a RECORD yet.
    kinds = {entry.kind for one in recordings for entry in one.history.entries}
    assert kinds == set(EntryKind) - {EntryKind.RECORD}
    assert {wait.kind for one in recordings for wait in one.history.waits} == set(WaitKind)
    for part in ("attempts", "cursors", "progress"):
        assert any(getattr(one.history, part) for one in recordings), part
    assert {"compensated", "completed", "waiting", "compensating"} <= {one.run.status.value for one in recordings}


@pytest.mark.parametrize("name", ["numbers", "loops", "children"])
async def test_this_release_records_the_same(name: str):
    """Not a promise to anyone, but a change of it is to be noticed: it may need a new golden file beside the old."""
    made = await make(name)
    golden = histories.read(FOLDER / f"{name}.v2.json")

    assert [entry[1:4] for entry in made.history.entries] == [entry[1:4] for entry in golden.history.entries]
    assert made.history.names == golden.history.names
