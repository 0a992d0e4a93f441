"""Each error of the driver becomes one error of the store."""

from __future__ import annotations

import apsw
import pytest

from stepwell.errors import (
    ForeignFileError,
    StepwellError,
    StoreFullError,
    StoreNotWritableError,
    StoreUnavailableError,
)
from stepwell.stores.sqlite.faults import translate, translated


@pytest.mark.parametrize(
    ("driver", "ours"),
    [
        (apsw.BusyError, StoreUnavailableError),
        (apsw.LockedError, StoreUnavailableError),
        (apsw.IOError, StoreUnavailableError),
        (apsw.NoMemError, StoreUnavailableError),
        (apsw.InterruptError, StoreUnavailableError),
        (apsw.FullError, StoreFullError),
        (apsw.NotADBError, ForeignFileError),
        (apsw.CorruptError, ForeignFileError),
        (apsw.CantOpenError, StoreNotWritableError),
        (apsw.ReadOnlyError, StoreNotWritableError),
        (apsw.PermissionsError, StoreNotWritableError),
    ],
)
def test_every_error_of_the_driver_is_translated(driver: type[apsw.Error], ours: type[StepwellError]) -> None:
    with pytest.raises(ours) as caught, translated("some/runs.db"):
        raise driver("words of the driver")

    assert type(caught.value) is ours
    assert caught.value.where == "some/runs.db"
    assert "some/runs.db" in caught.value.title
    assert isinstance(caught.value.__cause__, driver)


def test_every_error_has_a_reason_and_a_fix_if_there_is_one() -> None:
    for driver in (apsw.BusyError, apsw.FullError, apsw.NotADBError, apsw.CantOpenError):
        error = translate(driver("x"), "runs.db")
        assert error.why
        assert error.fix
