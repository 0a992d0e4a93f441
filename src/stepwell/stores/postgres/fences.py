"""Fences a database that was restored from a backup."""

from __future__ import annotations

import psycopg

from stepwell.stores.base.backups import EPOCHS_SKIPPED, NUMBERS_SKIPPED, Fenced
from stepwell.stores.postgres.faults import to_store_error
from stepwell.stores.postgres.migrator import check_ready
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.texts import quoted
from stepwell.stores.postgres.urls import parse_address

_NUMBERED = (("outbox", "number"), ("receipts", "number"), ("records", "number"), ("runs", "id"))


def fence(url: str) -> Fenced:
    """Raise every epoch and number that was visible outside, and end the leases of all workers.

    A worker that used the database before it was restored can no longer write to it.
    """
    address = parse_address(url)
    schema = quoted(address.schema)
    try:
        with open_connection(address) as connection:
            check_ready(connection, address.schema, address.where)
            with connection.transaction():
                runs = connection.execute(
                    f"update {schema}.runs set epoch = epoch + %s".encode(), (EPOCHS_SKIPPED,)
                ).rowcount
                connection.execute(f"update {schema}.records set version = version + %s".encode(), (EPOCHS_SKIPPED,))
                # While `heads` has a fence, it alone admits plain commits, and workers know the row's number.
                connection.execute(f"update {schema}.heads set fence = null where fence is not null".encode())
                workers = connection.execute(f"update {schema}.workers set lease_until = 0".encode()).rowcount
                for table, column in _NUMBERED:
                    connection.execute(
                        "select setval(sequence, nextval(sequence) + %s)"
                        " from (select pg_get_serial_sequence(%s, %s)::regclass as sequence) as found",
                        (NUMBERS_SKIPPED, f"{schema}.{quoted(table)}", column),
                    )
                connection.execute(
                    "select setval(%s::regclass, nextval(%s::regclass) + %s)",
                    (f"{schema}.armed", f"{schema}.armed", NUMBERS_SKIPPED),
                )
    except psycopg.Error as error:
        raise to_store_error(error, address.where) from error
    return Fenced(address.where, runs, workers)
