"""Five hundred wrong command lines: each gets a code, a way out and an exit code of the table, and none a traceback."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from stepwell.cli.main import main
from tests.edges.conftest import Cli, Shop

LINES = 500
EXIT_CODES = {2, 3, 4, 5, 6, 7, 8, 9, 10}
VERBS = (
    *("start", "ls", "show", "tree", "watch", "why", "history", "graph", "result", "signal", "publish"),
    *("cancel", "retry", "pause", "resume", "workflow", "doctor", "explain"),
)
ON_RUNS = ("show", "tree", "why", "history", "graph", "cancel", "retry", "pause", "resume")
ODD = (
    *("", " ", "ä", "\x00", "\x1b[31m", "'; drop table stepwell_runs; --", "%s%n", "../../etc", "😀"),
    *("a" * 5_000, "\ud800", "-1"),
)
WRONG_FILTERS = [
    "stauts:failed", "status:", "status:faild", "status:failed,,paused", "since:", "since:x", "since:1y", "-since:1h",
    "until:24", "took:5", "took:>x", "took:>", "version:x", "version:<", "version:-1", "waiting:x", "waiting:", "sort:",
    "sort:x", "sort:-", "sort:took sort:id", "-sort:took", 'key:"', '"open', "-", "input:1", "input.a:*", "tag.a:b",
    "parent:a,b", "-parent:a", "1:2", "a:b", "::", "\x00", "x" * 5_000, "a " * 60, "key:" + "k" * 201, "STATUS:failed",
]  # fmt: skip


def _odd(chance: random.Random) -> str:
    return chance.choice(ODD) + chance.choice(ODD)


def _unknown_command(chance: random.Random) -> list[str]:
    return ["x" + chance.choice(VERBS) + _odd(chance)]


def _unknown_option(chance: random.Random) -> list[str]:
    return [chance.choice(VERBS), f"--no-such-{chance.randint(0, 99)}", _odd(chance)]


def _unknown_run(chance: random.Random) -> list[str]:
    return [chance.choice(ON_RUNS), "--", f"no such run {chance.random()} {_odd(chance)}"]


def _unknown_shortcut(chance: random.Random) -> list[str]:
    return [chance.choice(ON_RUNS), "@" + chance.choice(["", "lst", "first", "last-faled"]) + _odd(chance).strip()]


def _missing(chance: random.Random) -> list[str]:
    return [chance.choice([*ON_RUNS, "start", "signal", "publish", "result", "watch", "completion", "rollback"])]


def _wrong_filter(chance: random.Random) -> list[str]:
    verb = chance.choice(["ls", "cancel", "retry", "resume"])
    return [verb, "--where", f"{chance.choice(['', 'status:failed ', 'word '])}{chance.choice(WRONG_FILTERS)}"]


def _wrong_value(chance: random.Random) -> list[str]:
    return chance.choice(
        [
            ["ls", "--limit", chance.choice(["0", "-1", "x", "1e3", "1001", "99999999999999999999"])],
            ["ls", "--status", _odd(chance) + "?"],
            ["ls", "-o", "yam" + _odd(chance)],
            ["ls", "--before", f"no {chance.random()}"],
            ["tree", "declined-1", "--depth", chance.choice(["-1", "x", "21"])],
            ["graph", "declined-1", "--as", "png"],
            ["result", "checkout-1", "--timeout", chance.choice(["x", "-1s", "", "5 parsecs"])],
            ["watch", "approval-1", "--timeout", chance.choice(["x", "-1s", "10ms"])],
            ["completion", _odd(chance) + "sh"],
            ["explain", "SW" + _odd(chance) + "1"],
            ["publish", "x", "--retain", "x", "a=b"],
            ["publish", "x", "--deliver", "none"],
            ["signal", "approval-1", "go", "--if-missing", "x"],
        ]
    )


def _wrong_input(chance: random.Random) -> list[str]:
    words = ["nameless", "=x", "a:=", "a:={", "a:=NaN", "@/no/such/file", "a:=1e999", "a:=[1", '{"a":1}']
    head = chance.choice([["start", "checkout"], ["signal", "approval-1", "go"], ["publish", "topic"]])
    return [*head, chance.choice(words), *chance.choice([[], ["b=1"], ["b=1", "b=2"]])]


def _wrong_state(chance: random.Random) -> list[str]:
    return chance.choice(
        [
            ["retry", "checkout-1"],
            ["resume", "declined-1"],
            ["rollback", "resume", "checkout-1"],
            ["cancel", "declined-1"],
            ["signal", "checkout-1", "go"],
            ["result", "declined-1"],
            ["start", f"no_workflow_{chance.randint(0, 99)}"],
            ["cancel", "--where", "status:waiting"],
            ["retry", "--where", "status:completed", "--yes"],
            ["retry", "declined-1", "--where", "status:failed"],
        ]
    )


MAKERS: list[Callable[[random.Random], list[str]]] = [
    _unknown_command,
    _unknown_option,
    _unknown_run,
    _unknown_shortcut,
    _missing,
    _wrong_filter,
    _wrong_filter,
    _wrong_value,
    _wrong_input,
    _wrong_state,
]


def test_a_wrong_line_gets_a_code_and_never_a_traceback(cli: Cli, db: Shop) -> None:
    chance = random.Random(20)
    before = _statuses(cli, db)
    for number in range(LINES):
        words = MAKERS[number % len(MAKERS)](chance)
        said = cli("--db", db.url, *words)

        assert said.code in EXIT_CODES, (words, said)
        assert "Traceback" not in said.err, words
        assert "SW999" not in said.err, (words, said.err)
        assert said.code == 10 or re.match(r"SW\d{3}  \S", said.err), (words, said)
    assert _statuses(cli, db) == before


def _statuses(cli: Cli, db: Shop) -> set[tuple[str, str]]:
    """Of all runs but the acts on many runs, which refused every one of them."""
    listed = cli("ls", "--where", "-workflow:stepwell.bulk", "--db", db.url, "-o", "json").json["runs"]
    return {(run["run_id"], run["status"]) for run in listed}


def test_a_wrong_database_gets_a_code_too(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, but a text that is long enough " * 40)
    urls = [
        f"sqlite:///{tmp_path}/none.db",
        f"sqlite:///{tmp_path}/text.db",
        f"sqlite:///{tmp_path}",
        "sqlite:",
        "mysql://x",
        "postgresql://nobody@127.0.0.1:1/none",
        "",
        "x",
        "\x00",
    ]
    for url in urls:
        for words in (["ls"], ["cancel", "--where", "status:failed", "--yes"], ["why", "@last"], ["watch", "a"]):
            said = cli(*words, "--db", url)
            assert said.code in EXIT_CODES, (url, words, said)
            assert re.match(r"SW\d{3}  ", said.err), (url, words, said)
            assert "SW999" not in said.err, (url, words, said.err)


def test_the_entry_never_raises() -> None:
    for words in (["ls", "--where", "\ud800"], ["\ud800"], ["--db"], ["-o", "json", "x"]):
        assert main(words) in EXIT_CODES
