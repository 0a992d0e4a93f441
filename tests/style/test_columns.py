"""A column of a run is written down in few files, and docs/where.md names them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from stepwell.model.runs import Run
from stepwell.stores.postgres.composites import resolve as resolve_composites
from stepwell.stores.sqlite.columns import resolve as resolve_columns
from tests.style.test_where import rows
from tests.style.tree import PACKAGE, source_files, syntax_of

FILES_MAX = 6
GENERATED = {"schema.sql"}


def hand_written() -> list[Path]:
    """The modules and the SQL of the package, without what is generated and without the suite for stores."""
    found = [*source_files(), *sorted(PACKAGE.rglob("*.sql"))]
    return [path for path in found if path.name not in GENERATED and "conformance" not in path.parts]


def names_column(path: Path, column: str) -> bool:
    """Whether a file names a column: as a word of SQL, or in Python as a field, an attribute, a keyword or a text."""
    if path.suffix == ".sql":
        code = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
        return re.search(rf"\b{column}\b", code) is not None
    tree = syntax_of(path)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(_names(node, column) for node in ast.walk(tree) if id(node) not in called)


def _names(node: ast.AST, column: str) -> bool:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)):
            return name == column
        case ast.Attribute(attr=name) | ast.keyword(arg=name) | ast.Constant(value=name):
            return name == column
        case _:
            return False


def files_of(column: str) -> set[str]:
    return {path.relative_to(PACKAGE).as_posix() for path in hand_written() if names_column(path, column)}


@pytest.mark.parametrize("column", ["forked_from", "amendment"])
def test_a_column_that_one_act_sets_is_named_in_few_files(column: str) -> None:
    assert column in Run._fields
    found = files_of(column)
    assert {"model/runs.py", "stores/sqlite/migrations/0001_foundation.sql"} <= found
    assert len(found) <= FILES_MAX, sorted(found)


def test_the_answer_about_columns_names_the_files_of_one() -> None:
    answers = dict(rows())
    assert files_of("forked_from") == set(answers["a column of a run, such as `forked_from`"])


def columns_in(folder: str, table: str) -> set[str]:
    """The columns that the migrations of a store give to the table of runs."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((PACKAGE / folder / "migrations").glob("*.sql"))]
    code = re.sub(r"--.*", "", "\n".join(texts))
    made = re.search(rf"create table {re.escape(table)} \((.*?)^\)", code, re.DOTALL | re.MULTILINE)
    assert made is not None
    added = re.findall(rf"alter table {re.escape(table)} add column (\w+)", code)
    return {*re.findall(r"^    (?!check\b)(\w+) ", made[1], re.MULTILINE), *added}


def test_every_column_of_a_run_travels_from_sqlite() -> None:
    beside = {"id", "owner", "definition", "number"}  # in the batch beside the run, or given anew
    travelling = set(resolve_columns("{Run.*}").split(", "))
    assert travelling | beside == columns_in("stores/sqlite", "stepwell_runs")


def test_every_column_of_a_run_travels_from_postgres() -> None:
    parts = {"parent", "parent_location", "detached", "tied", "previous", "previous_started_at", "previous_finished_at"}
    beside = {"id", "shard", "owner", "definition", "discards"}
    travelling = set(resolve_composites("{Run.*}").split(", "))
    assert travelling | parts | beside == columns_in("stores/postgres", "{t}.runs")
