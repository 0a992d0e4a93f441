"""The demonstration: true when it says so, and it would say if it were not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.demo.checks import Takeover, check_rollback, check_takeover, count_repeats
from stepwell.cli.demo.ledger import Effect
from tests.edges.conftest import Cli
from tests.edges.test_tree import entry, run

AT = datetime(2026, 1, 2, tzinfo=UTC)
SEEN = Takeover(
    in_flight="pack",
    recorded=frozenset({"charge"}),
    died_by_kill=True,
    first_pid=1,
    second_pid=2,
    first_incarnation="a",
    second_incarnation="b",
)
ENTRIES = [
    entry(1, "charge", at=AT),
    entry(2, "pack", at=AT),
    entry(3, "nap", kind="sleep", took=1.0, at=AT),
    entry(4, "ok", kind="receive", at=AT),
]


def effect(path: str, pid: int, what: str = "began", *, after: float = -1.0, key: str = "k") -> Effect:
    return Effect("r", path, what, pid, AT.timestamp() + after, f"{key}:{path}")


EFFECTS = [
    *(effect("charge", 1, what) for what in ("began", "ended")),
    effect("pack", 1),
    *(effect("pack", 2, what) for what in ("began", "ended")),
]


def test_the_demonstration_is_true(tmp_path: Path, cli: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stepwell.cli.main", "demo", "-o", "json"],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
    )
    told = json.loads(done.stdout)

    assert [check for check in told["checks"] if not check["ok"]] == []
    assert (done.returncode, told["ok"], told["repeated"]) == (0, True, [])
    assert "kill -9" in done.stderr
    assert [r["status"] for r in told["runs"]] == ["completed", "compensated"]
    assert "order-1001" in cli("ls", "--db", told["db"]).out


def test_all_claims_hold_for_what_should_happen() -> None:
    assert [c for c in check_takeover(run("completed"), ENTRIES, EFFECTS, SEEN, 1.0) if not c.ok] == []
    assert count_repeats(EFFECTS, ENTRIES, SEEN.recorded).in_flight == ("pack",)


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        ({"seen": replace(SEEN, died_by_kill=False)}, "worker-1 was killed"),
        ({"seen": replace(SEEN, recorded=frozenset({"charge", "pack"}))}, "worker-1 was killed"),
        ({"seen": replace(SEEN, second_incarnation="a")}, "another worker"),
        ({"seen": replace(SEEN, second_pid=3)}, "another worker"),
        ({"run": run("failed")}, "its order completed"),
        ({"effects": [*EFFECTS, effect("charge", 2)]}, "1 steps repeated"),
        ({"effects": [*EFFECTS, effect("pack", 2, after=1.0)]}, "1 steps repeated"),
        ({"effects": [*EFFECTS, effect("pack", 2, key="other")]}, "a step that runs again"),
        ({"entries": ENTRIES[:2] + ENTRIES[3:]}, "a timer"),
        ({"entries": [*ENTRIES[:2], replace(ENTRIES[2], took=0.9), ENTRIES[3]]}, "a timer"),
        ({"entries": ENTRIES[:3]}, "a signal"),
    ],
)
def test_a_claim_that_is_not_true_is_noticed(broken: dict[str, object], claim: str) -> None:
    given: dict[str, Any] = {"run": run("completed"), "entries": ENTRIES, "effects": EFFECTS, "seen": SEEN, **broken}
    checks = check_takeover(**given, timer_seconds=1.0)

    assert claim in " | ".join(check.claim for check in checks if not check.ok)


@pytest.mark.parametrize(
    ("order", "ran", "status", "ok"),
    [
        (["b", "a"], ["b", "a"], "compensated", True),
        (["a", "b"], ["a", "b"], "compensated", False),
        (["b"], ["b"], "compensated", False),
        (["b", "a"], ["b", "b", "a"], "compensated", False),
        (["b", "a"], ["b", "a"], "failed", False),
    ],
)
def test_a_rollback_counts_only_in_reverse_order_and_once(
    order: list[str], ran: list[str], status: str, ok: bool
) -> None:
    done = [entry(1, "a", can_undo=True), entry(2, "b", can_undo=True)]
    undone = [entry(3 + n, f"{path}~undo", kind="undo") for n, path in enumerate(order)]
    checks = check_rollback(run(status), [*done, *undone], [effect(f"{path}~undo", 1) for path in ran])

    assert all(check.ok for check in checks) is ok
