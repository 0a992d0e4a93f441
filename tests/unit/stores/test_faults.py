"""The table of store errors; each driver's translation agrees with it."""

from __future__ import annotations

import apsw
import psycopg
import pytest
from psycopg import errors as pg

from stepwell import errors
from stepwell.errors import StepwellError, StoreError, StoreRefusedError
from stepwell.stores.base.faults import FaultClass, classify, classify_sqlite, classify_sqlstate, is_final
from stepwell.stores.postgres import faults as postgres
from stepwell.stores.sqlite import faults as sqlite

STATES = sorted(
    {
        found.sqlstate
        for found in vars(pg).values()
        if isinstance(found, type) and issubclass(found, psycopg.Error) and found.sqlstate
    }
)
DRIVER = [found for found in vars(apsw).values() if isinstance(found, type) and issubclass(found, apsw.Error)]


@pytest.mark.parametrize("state", STATES)
def test_every_sqlstate_becomes_an_error_of_the_class_in_the_table(state: str) -> None:
    found = postgres.translate(psycopg.errors.lookup(state)("words"), "here")

    if isinstance(found, postgres.ConflictError):  # repeated at once
        assert classify_sqlstate(state) is FaultClass.RETRIED
    else:
        assert classify(found) is classify_sqlstate(state), found


def test_an_error_without_a_state_leaves_it_in_doubt() -> None:
    assert classify(postgres.translate(psycopg.OperationalError("lost"), "here")) is FaultClass.IN_DOUBT


@pytest.mark.parametrize("kind", DRIVER)
def test_every_error_of_sqlite_becomes_an_error_of_the_class_in_the_table(kind: type[apsw.Error]) -> None:
    assert classify(sqlite.translate(kind("words"), "here")) is classify_sqlite(sqlite.code_of(kind("words")))


def test_only_errors_of_a_store_are_ever_retried() -> None:
    kinds = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, StepwellError)]

    assert all(issubclass(kind, StoreError) for kind in kinds if not is_final(kind.__new__(kind)))
    assert is_final(ValueError())
    assert is_final(RuntimeError())


def test_a_final_error_reports_that_repeating_does_not_help() -> None:
    unfit = postgres.translate(psycopg.errors.lookup("42601")("syntax error"), "here")
    too_big = sqlite.translate(apsw.TooBigError("string or blob too big"), "here")

    assert [type(found) for found in (unfit, too_big)] == [StoreRefusedError, StoreRefusedError]
    assert "syntax error" in str(unfit)
