"""Statements and migrations from folders of .sql files."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import SchemaMismatchError
from stepwell.ids import RunId
from stepwell.model.states import RunStatus
from stepwell.stores.base.views import RunFilter
from stepwell.stores.sql.filters import run_conditions
from stepwell.stores.sql.migrations import Migration, load_migrations, pending_migrations
from stepwell.stores.sql.statements import load_statements


def test_statements_are_keyed_by_file_and_name_and_lose_their_comments(tmp_path: Path) -> None:
    (tmp_path / "runs.sql").write_text(
        "-- name: claim\n-- because\nselect 1\n  -- inside\n  from runs;\n\n-- name: b\nx;\n"
    )

    assert load_statements(tmp_path) == {"runs.claim": "select 1 from runs", "runs.b": "x"}


@pytest.mark.parametrize(
    "text",
    ["-- name: a\nselect 1;\n-- name: a\nselect 2;\n", "-- name: a\n-- only words\n", "select 1;\n"],
    ids=["twice", "empty", "nameless"],
)
def test_an_ambiguous_statement_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs.sql").write_text(text)

    with pytest.raises(ValueError, match=r"runs\.sql"):
        load_statements(tmp_path)


def test_migrations_come_in_order(tmp_path: Path) -> None:
    (tmp_path / "0002_more.sql").write_text("b")
    (tmp_path / "0001_first.sql").write_text("a")

    assert load_migrations(tmp_path) == (Migration(1, "first", "a"), Migration(2, "more", "b"))


def test_a_gap_between_migrations_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "0001_first.sql").write_text("a")
    (tmp_path / "0003_third.sql").write_text("c")

    with pytest.raises(ValueError, match="order"):
        load_migrations(tmp_path)


def test_only_what_is_missing_is_pending() -> None:
    known = (Migration(1, "a", ""), Migration(2, "b", ""))

    assert pending_migrations(known, 0, where="x") == known
    assert pending_migrations(known, 1, where="x") == known[1:]
    assert pending_migrations(known, 2, where="x") == ()
    with pytest.raises(SchemaMismatchError, match=r"schema 3.*up to 2"):
        pending_migrations(known, 3, where="x")


def test_only_the_given_conditions_are_used() -> None:
    assert run_conditions(RunFilter(), None) == [("true", {})]

    [(text, parameters)] = run_conditions(RunFilter((RunStatus.COMPLETED,), workflow="w"), RunId("r9"))

    of_workflow = "{definition} in (select id from stepwell_definitions where workflow = :workflow)"
    assert text == f"status = :status and {of_workflow} and run_id < :before"
    assert parameters == {"status": RunStatus.COMPLETED, "workflow": "w", "before": "r9"}


def test_each_status_is_a_separate_query() -> None:
    wanted = (RunStatus.PAUSED, RunStatus.COMPLETED, RunStatus.RUNNING, RunStatus.PAUSED)

    assert run_conditions(RunFilter(wanted), None) == [
        ("status = :status and status <> 'completed' and owner is null", {"status": RunStatus.PAUSED}),
        ("status = :status", {"status": RunStatus.COMPLETED}),
        ("status = :status and status <> 'completed'", {"status": RunStatus.RUNNING}),
    ]
