"""Stored text is data: no command and no format lets it steer a terminal, forge a line, or run in a shell."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from stepwell import Context, Engine, Fatal, StepwellError, step, workflow
from stepwell.cli.main import stepwell
from stepwell.cli.targets import complete_run
from stepwell.cli.texts import is_plain_word, shell_word
from tests.edges.conftest import Cli

SHELL = "$(touch evil)`touch evil`;touch evil&'\"\\"
BIDI = "\u202e\u2066\u200f"
TEXT = f"text\x1b[31m\x1b]0;title\x07\x9b2J\x1bc\r{BIDI}\nforged {SHELL}"  # anywhere that takes any text
NAME = f"name{BIDI}{SHELL}".replace("/", "")  # where control characters are not allowed

# A terminal obeys these, or reorders what follows them.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_QUOTED = re.compile(r"'[^']*'|\"'\"")


async def fine(value: str) -> str:
    return value


async def broken(value: str) -> str:
    raise Fatal(TEXT)


@workflow(name=NAME)
async def failing(ctx: Context, value: str) -> str:
    await ctx.step(NAME, fine, value)
    return await ctx.step("charge", broken, value)


@workflow
async def stuck(ctx: Context, value: str) -> str:
    await ctx.step(step(fine, name=NAME, compensate=broken), value)
    return await ctx.step("charge", broken, value)


@workflow
async def waiting(ctx: Context, value: str) -> str:
    await ctx.step(NAME, fine, value)
    message = await ctx.receive(NAME, name="wait")
    return str(message.payload)


@workflow
async def listening(ctx: Context, value: str) -> str:
    await ctx.child(done, value, key=TEXT + "child")
    await ctx.receive(NAME)
    return value


@workflow
async def done(ctx: Context, value: str) -> str:
    return await ctx.step(NAME, fine, value)


FLOWS = {"failing": failing, "stuck": stuck, "waiting": waiting, "listening": listening, "done": done}


class Hostile(NamedTuple):
    """A database in which every text is hostile."""

    file: Path
    ids: dict[str, str]

    def copy(self, folder: Path) -> str:
        for part in self.file.parent.glob("hostile.db*"):
            shutil.copy(part, folder / part.name)
        return f"sqlite:///{folder / 'hostile.db'}"


async def _fill(url: str) -> dict[str, str]:
    ids: dict[str, str] = {}
    async with Engine(url, workflows=list(FLOWS.values())) as engine:
        for name, flow in FLOWS.items():
            tags = {SHELL.replace("=", ""): SHELL}
            run = await engine.start(flow, TEXT, key=f"{TEXT}{name}", tags=tags)
            ids[name] = str(run.run_id)
        for name in ("failing", "stuck", "done"):
            try:
                await engine.result(ids[name], timeout="60s")
            except StepwellError:
                pass
        for name in ("waiting", "listening"):
            while not (await engine.runs.detail(ids[name])).history.waits:  # noqa: ASYNC110  another task waits
                await asyncio.sleep(0.01)
        await engine.signal(ids["waiting"], "unexpected" + BIDI, TEXT)
        await engine.holds.pause(ids["waiting"], by=TEXT, reason=TEXT)
        await engine.holds.pause_workflow("done", by=TEXT, reason=TEXT)
        await engine.repairs.redrive(ids["failing"], by=TEXT, reason=TEXT)
        try:
            await engine.result(ids["failing"], timeout="60s")
        except StepwellError:
            pass
    return ids


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    file = tmp_path_factory.mktemp("hostile") / "hostile.db"
    return Hostile(file, asyncio.run(_fill(f"sqlite:///{file}")))


LOOKS = [
    ["ls"],
    ["ls", "--where", "status:failed"],
    *([verb, name] for verb in ("show", "why", "history", "tree") for name in FLOWS),
    *(["graph", name, "--as", form] for name in FLOWS for form in ("mermaid", "dot")),
    ["watch", "done"],
    ["watch", "waiting", "--timeout", "10ms"],
    ["result", "done"],
    ["result", "failing"],
    ["result", "waiting", "--timeout", "10ms"],
    ["diff", "failing", "done"],
    ["workflow", "ls"],
    ["workflow", "show", "done"],
    ["workflow", "show", NAME],
    ["bulk", "ls"],
    ["outbox", "ls"],
    ["doctor"],
    ["versions"],
    ["versions", NAME],
    ["show", TEXT],
    ["show", TEXT + "nothing"],
]
ACTS = [
    ["start", "done", "--key", TEXT + "done"],
    ["start", NAME],
    ["start", TEXT],
    ["signal", "listening", NAME],
    ["signal", "waiting", "other", f"text={TEXT}"],
    ["signal", TEXT, NAME, "--if-missing", "hold"],
    ["publish", NAME, f"text={TEXT}"],
    ["cancel", "listening", "--reason", TEXT],
    ["cancel", "done"],
    ["cancel", "--where", "status:waiting", "--dry-run"],
    ["cancel", "--where", "status:waiting"],
    ["pause", "listening", "--reason", TEXT, "--by", TEXT],
    ["resume", "waiting"],
    ["resume", "done"],
    ["retry", "failing"],
    ["retry", "done"],
    ["redrive", "failing", "--dry-run", "--reason", TEXT],
    ["rewind", "failing", "charge", "--dry-run"],
    ["rewind", "failing", NAME + "missing"],
    ["skip", "failing", "charge", "--result", "1", "--dry-run"],
    ["fork", "failing", "--from", "charge", "--key", TEXT + "fork"],
    ["rollback", "resume", "stuck"],
    ["workflow", "pause", NAME, "--reason", TEXT],
    ["workflow", "resume", "done"],
    ["outbox", "replay", TEXT],
    ["export", "failing"],
    ["explain", TEXT],
]
FORMATS = [
    [],
    ["--ascii"],
    ["-o", "wide"],
    ["-o", "json"],
    ["-o", "jsonl"],
    ["-o", "yaml"],
    ["-o", "ids"],
    ["-o", "csv"],
]


def _line(words: list[str], hostile: Hostile) -> list[str]:
    return [hostile.ids.get(word, word) if number else word for number, word in enumerate(words)]


def _check(text: str) -> None:
    assert not _OBEYED.findall(text)
    for line in text.splitlines():
        assert not line.startswith("forged"), line
        command = line.partition(" stepwell ")[2]
        bare = _QUOTED.sub("", command)
        assert "$(" not in bare, line
        assert "`touch" not in bare, line


@pytest.mark.parametrize("width", [None, 80, 200])
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form[-1] if form else "table")
def test_no_look_lets_stored_text_out_of_its_place(
    cli: Cli, hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: list[str], width: int | None
) -> None:
    if width is not None:
        monkeypatch.setattr("stepwell.cli.output._is_terminal", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("NO_COLOR", "1")
    url = hostile.copy(tmp_path)
    for words in LOOKS:
        said = cli("--db", url, *_line(words, hostile), *form)
        _check(said.out)
        _check(said.err)
        assert "SW999" not in said.err, (words, said.err)


@pytest.mark.parametrize("form", [[], ["-o", "json"], ["-o", "ids"]], ids=["table", "json", "ids"])
def test_no_act_lets_stored_or_given_text_out_of_its_place(
    cli: Cli, hostile: Hostile, tmp_path: Path, form: list[str]
) -> None:
    for number, words in enumerate(ACTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        chosen = [] if words[0] == "export" else form
        said = cli("--db", hostile.copy(folder), *_line(words, hostile), *chosen)
        _check(said.out)
        _check(said.err)
        assert "SW999" not in said.err, (words, said.err)


def test_completion_offers_no_word_that_a_shell_would_read_as_more_than_a_word(
    hostile: Hostile, tmp_path: Path
) -> None:
    from stepwell.cli.settings import Settings

    show = stepwell.get_command(click.Context(stepwell), "show")
    assert show is not None
    context = click.Context(show, obj=Settings(db=hostile.copy(tmp_path)))
    offered = complete_run(context, show.params[0], "")

    assert set(hostile.ids.values()) <= set(offered)
    assert [word for word in offered if not (word.startswith("@") or is_plain_word(word))] == []


@pytest.mark.parametrize("text", [TEXT, NAME, SHELL, "it's", "", "-rf", "~", "a b", "*"])
def test_a_quoted_word_is_one_word_of_a_shell(text: str) -> None:
    assert len(shlex.split(shell_word(text))) == 1
    assert not _OBEYED.findall(shell_word(text))
