"""The tree: pure, from views to lines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stepwell.cli.tree import render_tree
from stepwell.views import EntryView, FailureRecord, RunView, WaitView

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(status: str = "running", **changes: Any) -> RunView:
    given: dict[str, Any] = {
        "run_id": "r-1",
        "workflow": "shop",
        "version": 2,
        "status": status,
        "key": "order-1",
        "generation": 1,
        "created_at": BEGIN,
        "started_at": BEGIN,
        "ended_at": None,
        "wake_at": None,
        "parent": None,
        "successor": None,
        "reason": "",
        "failure": None,
    }
    return RunView(**{**given, **changes})


def entry(seq: int, path: str, kind: str = "step", **changes: Any) -> EntryView:
    given: dict[str, Any] = {
        "status": "done",
        "attempts": 1,
        "at": BEGIN,
        "took": 0.5,
        "value": None,
        "failure": None,
        "can_undo": False,
        "is_undone": False,
    }
    return EntryView(seq=seq, path=path, kind=kind, **{**given, **changes})


def test_a_tree_nests_by_path_in_the_order_of_commits() -> None:
    entries = [
        entry(1, "load", value={"rows": 2}),
        entry(2, "work/~0/parse"),
        entry(3, "work/~1/parse", attempts=3),
        entry(4, "work", kind="loop", took=90.0),
        entry(5, "both/right/notify"),
        entry(6, "both/left/notify"),
    ]
    waits = [WaitView("approval", "signal", None, ("approve",)), WaitView("both", "timer", BEGIN, ())]

    assert render_tree(run(), entries, waits) == [
        "r-1  shop v2  ● running",
        "  key order-1 · created 2026-01-02 03:04:05 UTC",
        '├─ ✓ load            0.50 s   → {"rows":2}',
        "├─ ✓ work          1 m 30 s   loop",
        "│  ├─ ● ~0",
        "│  │  └─ ✓ parse     0.50 s",
        "│  └─ ● ~1",
        "│     └─ ✓ parse     0.50 s   3 attempts",
        "├─ ‖ both          sleeping until 2026-01-02 03:04:05 UTC",
        "│  ├─ ● right",
        "│  │  └─ ✓ notify    0.50 s",
        "│  └─ ● left",
        "│     └─ ✓ notify    0.50 s",
        "└─ ‖ approval      waiting for signal 'approve'",
    ]


def test_a_rollback_stands_at_the_end_in_the_order_it_was_done_and_in_ascii() -> None:
    failure = FailureRecord("Fatal", "no \x1b[1mstock")
    entries = [
        entry(1, "a", can_undo=True, is_undone=True),
        entry(2, "b/c", can_undo=True, is_undone=True),
        entry(3, "d", status="failed", failure=failure),
        entry(4, "b/c~undo", kind="undo"),
        entry(5, "a~undo", kind="undo"),
    ]
    ended = run("compensated", ended_at=BEGIN + timedelta(seconds=4.3), failure=failure)

    assert render_tree(ended, entries, [], ascii=True) == [
        "r-1  shop v2  < compensated  4.30 s",
        "  key order-1 - created 2026-01-02 03:04:05 UTC",
        "  cause   Fatal: no stock",
        "|- + a         0.50 s   < undone",
        "|- * b",
        "|  `- + c      0.50 s   < undone",
        "|- x d         0.50 s   Fatal: no stock",
        "`- < undo (last in, first out)",
        "   |- + b/c    0.50 s",
        "   `- + a      0.50 s",
    ]


def test_effects_that_could_not_be_undone_are_marked() -> None:
    lines = render_tree(run("compensation_failed"), [entry(1, "a", can_undo=True)], [])

    assert lines[0].endswith("⚠ rollback incomplete")
    assert lines[-1].endswith("not undone")


def test_a_wait_for_an_event_says_which() -> None:
    waits = [WaitView("Shipped", "topic", BEGIN, ("Shipped",), where=('order="42"',))]

    assert render_tree(run(), [], waits)[-1] == (
        "└─ ‖ Shipped  waiting for an event of 'Shipped' with order=\"42\" until 2026-01-02 03:04:05 UTC"
    )
