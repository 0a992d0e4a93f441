"""A database that has grown: the rows of one real run, copied many times inside the database itself."""

from __future__ import annotations

from collections.abc import Callable

import apsw
import psycopg
from psycopg import sql

from bench.probes import path_of

_TABLES = ("payloads", "names", "entries", "waits")


def multiply(url: str, run_id: str, count: int) -> list[str]:
    """Copy a run that nobody owns so many times; the ids of the copies. Nobody else uses the database meanwhile."""
    copies = _in_sqlite(url, run_id, count) if url.startswith("sqlite:") else _in_postgres(url, run_id, count)
    return [f"{_prefix(run_id)}{number:012d}" for number in range(copies, copies + count)]


def _prefix(run_id: str) -> str:
    """Ids beside that of the copied run: none that is given later is among them."""
    return run_id[:-12]


def _columns(names: list[str], run: str, run_id: str) -> Callable[[str], list[str]]:
    """What each column of a copy is made of, by the column that says whose row it is."""
    return lambda key: [run if name == key else run_id if name == "run_id" else f"t.{name}" for name in names]


def _in_sqlite(url: str, run_id: str, count: int) -> int:
    connection = apsw.Connection(str(path_of(url)))
    try:
        connection.execute("pragma synchronous = off")
        found = connection.execute(
            "select id, (select max(id) from stepwell_runs) from stepwell_runs where run_id = ?", (run_id,)
        ).fetchone()
        assert found is not None
        template, last = found
        with connection:
            for table, key in (("runs", "id"), *((name, "run") for name in _TABLES)):
                names = [
                    str(name) for _, name, *_ in connection.execute(f"pragma table_info(stepwell_{table})").fetchall()
                ]
                made = _columns(names, "? + n", f"'{_prefix(run_id)}' || printf('%012d', ? + n)")(key)
                numbers = [last] * sum(one.count("?") for one in made)
                connection.execute(
                    f"with recursive s (n) as (select 1 union all select n + 1 from s where n < {count})"
                    f" insert into stepwell_{table} ({', '.join(names)})"
                    f" select {', '.join(made)} from s cross join stepwell_{table} as t where t.{key} = ?",
                    (*numbers, template),
                )
        connection.execute("pragma wal_checkpoint(truncate)")
        return int(last) + 1
    finally:
        connection.close()


def _in_postgres(url: str, run_id: str, count: int) -> int:
    with psycopg.connect(url) as connection:
        connection.execute("set local synchronous_commit = off")
        row = connection.execute(
            "select id, (select max(id) from stepwell.runs) from stepwell.runs where run_id = %s", (run_id,)
        ).fetchone()
        assert row is not None
        template, last = row
        for table, key in (("runs", "id"), *((name, "run") for name in ("heads", *_TABLES))):
            found = connection.execute(
                "select column_name from information_schema.columns where table_schema = 'stepwell' and table_name = %s"
                " and is_generated = 'NEVER'"
                " order by ordinal_position",
                (table,),
            ).fetchall()
            names = [name for (name,) in found]
            made = _columns(names, f"{last} + n", f"'{_prefix(run_id)}' || lpad(({last} + n)::text, 12, '0')")(key)
            connection.execute(
                sql.SQL(
                    f"insert into stepwell.{table} ({', '.join(names)}) overriding system value"
                    f" select {', '.join(made)} from stepwell.{table} as t cross join generate_series(1, {count}) as n"
                    f" where t.{key} = {template} order by n"
                )
            )
        connection.execute("select setval(pg_get_serial_sequence('stepwell.runs', 'id'), max(id)) from stepwell.runs")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")
    return int(last) + 1
