"""History files: written, read back, and refused when they are something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Retry, step, workflow
from stepwell.check import histories
from stepwell.errors import HistoryFileError
from stepwell.model.runs import Run
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.check.recordings import begun


async def round_of(ctx: Context, number: int) -> Continue[int] | Break[int]:
    await ctx.step("work", lambda: number)
    return Break(number) if number == 3 else Continue(number + 1)


def stored(run: Run) -> Run:
    """A run without what belongs to the store that has it."""
    return run._replace(epoch=0, owner=None, revision=0, wake_at=None, stalls=0, successor=None)


async def test_what_is_written_is_read_back(harness: Harness, ledger: Ledger, tmp_path: Path):
    async def undo() -> None:
        ledger.note("undo")

    @workflow
    async def rich(ctx: Context, given: dict[str, Any]) -> None:
        await ctx.step("a", step(ledger.body("a", "ä€"), compensate=undo))
        await ctx.loop("rounds", round_of, 0)
        await ctx.join("both", {"left": lambda c: c.step("x", ledger.body("x")), "right": lambda c: c.sleep("z", "1h")})
        await ctx.receive("go")

    recording = await begun(harness, rich, {"who": "Ann"})
    file = tmp_path / "rich.json"
    histories.write(recording, file)
    again = histories.read(file)

    assert again.history == recording.history
    assert again.run == stored(recording.run)
    assert not again.is_redacted
    assert histories.dump(again) == file.read_bytes()


async def test_attempts_and_cursors_are_read_back(harness: Harness, ledger: Ledger):
    async def once_more(ctx: Context, number: int) -> Continue[int] | Break[int]:
        await ctx.step("work", ledger.body("work"))
        if number == 2:
            await ctx.step("fail", step(ledger.failing("fail"), retry=Retry(max_attempts=5)))
        return Continue(number + 1)

    @workflow
    async def trying(ctx: Context) -> None:
        await ctx.loop("rounds", once_more, 0)

    recording = await begun(harness, trying)
    assert all((recording.history.attempts, recording.history.cursors, recording.history.waits))

    assert histories.load(histories.dump(recording)).history == recording.history


async def test_bytes_that_are_no_text_are_read_back(harness: Harness, ledger: Ledger):
    @workflow
    async def short(ctx: Context) -> None:
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")

    recording = await begun(harness, short)
    for value in (b"e\xff\x00key", b"base64:no", b""):
        odd = recording._replace(
            history=recording.history._replace(entries=(recording.history.entries[0]._replace(value=value),))
        )
        assert histories.load(histories.dump(odd)).history == odd.history


async def test_a_file_names_its_format_and_paths(harness: Harness, ledger: Ledger):
    @workflow
    async def short(ctx: Context) -> None:
        await ctx.join("both", {"left": lambda c: c.step("x", ledger.body("x"))})
        await ctx.receive("go")

    file = json.loads(histories.dump(await begun(harness, short)))

    assert file["schema"] == "stepwell.history-file/2"
    assert [entry["path"] for entry in file["history"]["entries"]] == ["both/left/x", "both"]
    assert file["history"]["waits"][0]["path"] == "go"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"not json", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "not valid JSON"),
        (b"{}", "its schema is ''"),
        (b'{"schema": "stepwell.run/1"}', "its schema is 'stepwell.run/1'"),
        (b'{"schema": "stepwell.history-file/1"}', "this release reads stepwell.history-file/2"),
        (b'{"schema": "stepwell.history-file/3"}', "this release reads stepwell.history-file/2"),
        (b'{"schema": "stepwell.history-file/2", "stepwell": "1", "redacted": false}', "it has no 'history'"),
    ],
)
def test_anything_else_is_refused_with_the_reason(content: bytes, why: str):
    with pytest.raises(HistoryFileError) as caught:
        histories.load(content, where="x.json")
    assert caught.value.code == "SW441"
    assert why in caught.value.why


def test_a_pattern_without_files_is_refused(tmp_path: Path):
    with pytest.raises(HistoryFileError, match="no history file matches"):
        list(histories.find(str(tmp_path / "*.json")))
    with pytest.raises(HistoryFileError, match="cannot be read"):
        histories.read(tmp_path / "gone.json")
