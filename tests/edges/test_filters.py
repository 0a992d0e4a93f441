"""ls --where: the filter language on the command line, on SQLite and on PostgreSQL."""

from __future__ import annotations

import csv
import io

import pytest

from tests.edges.conftest import Cli, Shop


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", "checkout approval declined undone stuck confused"),
        ("status:failed", "declined"),
        ("status:failed,paused", "declined confused"),
        ("status:rollback_incomplete", "stuck"),
        ("status:active -status:waiting", "stuck confused"),
        ("workflow:*c*d", "declined confused"),
        ("workflow:d*,u*", "declined undone"),
        ("-workflow:*c*d -workflow:checkout", "approval undone stuck"),
        ("key:DECLINED-1", "declined"),
        ('key:"declined-1"', "declined"),
        ("key:*-1 version:<2 status:completed", "checkout"),
        ("at:charge", "declined undone"),
        ("error:declined", "declined undone"),
        ('error:"CARD "*declined', "declined undone"),
        ('error:"stock API"', "stuck"),
        ("waiting:signal", "approval"),
        ("waiting:signal:app*", "approval"),
        ("waiting:signal:other", ""),
        ("input.customer:ann status:completed", "checkout"),
        ("input.amount:42 -status:completed,failed,paused", "undone stuck"),
        ("input.amount:43", ""),
        ("approval", "approval"),
        ("since:1h", "checkout approval declined undone stuck confused"),
        ("until:1h", ""),
        ("since:2000-01-01 took:<1h status:completed", "checkout"),
        ("status:failed -status:failed", ""),
        ("tag:none", ""),
    ],
)
def test_a_filter_finds_its_runs(cli: Cli, shop_anywhere: Shop, where: str, expected: str) -> None:
    said = cli("ls", "--db", shop_anywhere.url, "-o", "ids", "--where", where)

    assert said.code == 0, said.err
    assert set(said.out.split()) == {shop_anywhere.ids[name] for name in expected.split()}


def test_an_order_holds_over_pages(cli: Cli, shop_anywhere: Shop) -> None:
    words = ["ls", "--db", shop_anywhere.url, "-o", "json", "--where", "sort:created", "--limit", "4"]
    first = cli(*words).json
    rest = cli(*words, "--before", first["next"]).json

    seen = [run["workflow"] for run in first["runs"] + rest["runs"]]
    assert seen == ["checkout", "approval", "declined", "undone", "stuck", "confused"]
    assert rest["next"] is None


def test_options_and_filter_hold_together(cli: Cli, db: Shop) -> None:
    words = ["ls", "--db", db.url, "-o", "ids", "--status", "failed", "--status", "paused"]

    assert cli(*words, "--where", "error:card").out.split() == [db.ids["declined"]]
    assert cli(*words, "-w", 'no "such" \\ one').out == ""


def test_a_wrong_filter_says_where_and_what_was_meant(cli: Cli, db: Shop) -> None:
    said = cli("ls", "--db", db.url, "--where", "status:failed sice:1h", "-o", "json")

    assert said.code == 2
    assert said.error["code"] == "SW407"
    assert said.error["where"] == "character 15 of the filter: sice:1h"
    assert "did you mean since" in said.error["fix"]


def test_csv_has_a_row_for_each_run_and_no_formula(cli: Cli, db: Shop) -> None:
    cli("cancel", "approval-1", "--reason", "=1+1", "--db", db.url)
    rows = [*csv.DictReader(io.StringIO(cli("ls", "--db", db.url, "-o", "csv").out))]

    assert {row["run_id"] for row in rows} == set(db.ids.values())
    assert {row["reason"] for row in rows} == {"", "'=1+1"}
    assert {row["priority"] for row in rows} == {"0"}
    assert cli("ls", "--db", db.url, "-o", "csv", "--where", "nothing").out == ""
