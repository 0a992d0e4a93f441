"""The space of a PostgreSQL schema, and giving it back."""

from __future__ import annotations

from typing import Any

import psycopg

from stepwell.clock import DAY, Instant
from stepwell.environment import Environment
from stepwell.stores.base.diagnosis import ids_between
from stepwell.stores.base.upkeep import SAMPLE, Space, TableSpace, Vacuumed, Weighed, WorkflowCount
from stepwell.stores.postgres.faults import to_store_error
from stepwell.stores.postgres.migrator import check_ready, drop_unused
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.texts import SQL, quoted, render
from stepwell.stores.postgres.urls import Address, parse_address


class PostgresUpkeep:
    """`Upkeep` of the schema that a URL names."""

    def __init__(self, environment: Environment, url: str) -> None:
        self._address = parse_address(url)
        self._clock = environment.clock

    def measure(self) -> Space:
        address = self._address
        with open_connection(address) as connection:
            check_ready(connection, address.schema, address.where)
            now = self._clock.now()
            since, until = ids_between(Instant(now - DAY), Instant(now + DAY))
            tables = _tables(connection, address)
            [(first, last)] = _ask(connection, address, "range")
            some = list(range(first, last + 1, max(1, (last - first + 1) // SAMPLE)))
            counts = _ask(connection, address, "count", since=since, until=until)
            weighed = _ask(connection, address, "weigh", runs=some)
            return Space(
                total=sum(one.bytes + one.index_bytes for one in tables),
                reusable=None,
                log=0,
                tables=tables,
                workflows=tuple(WorkflowCount(*row) for row in counts),
                weighed=tuple(Weighed(*row) for row in weighed),
                note=_note(connection, address),
            )

    def vacuum(self) -> Vacuumed:
        address = self._address
        with open_connection(address) as connection:
            check_ready(connection, address.schema, address.where)
            before = _tables(connection, address)
            try:
                for one in before:
                    # Without `full`, which would lock a table until all of it is written again.
                    connection.execute(f"vacuum (analyze) {quoted(address.schema)}.{quoted(one.name)}".encode())
            except psycopg.Error as error:
                raise to_store_error(error, address.where) from error
            after = _tables(connection, address)
            dropped = drop_unused(connection, address.schema, address.where)
        return Vacuumed(address.where, _sum(before), _sum(after), dropped)

    def tidy(self) -> tuple[str, ...]:
        with open_connection(self._address) as connection:
            return drop_unused(connection, self._address.schema, self._address.where)


def _tables(connection: psycopg.Connection[Any], address: Address) -> tuple[TableSpace, ...]:
    return tuple(TableSpace(*row) for row in _ask(connection, address, "tables", tables=quoted(address.schema)))


def _sum(tables: tuple[TableSpace, ...]) -> int:
    return sum(one.bytes + one.index_bytes for one in tables)


def _note(connection: psycopg.Connection[Any], address: Address) -> str:
    [(is_on, last, tables)] = _ask(connection, address, "autovacuum", schema=address.schema)
    if not is_on:
        return "autovacuum is off: the space of deleted rows is not used again until: stepwell vacuum"
    when = "it has not had to yet" if last is None else f"last at {last:%Y-%m-%d %H:%M} UTC, {tables} tables until now"
    return f"autovacuum makes the space of deleted rows usable again: {when}"


def _ask(connection: psycopg.Connection[Any], address: Address, statement: str, **parameters: Any) -> list[Any]:
    text = render(SQL[f"upkeep.{statement}"], address.schema)
    try:
        return connection.execute(text.encode(), parameters or None).fetchall()
    except psycopg.Error as error:
        raise to_store_error(error, address.where) from error
