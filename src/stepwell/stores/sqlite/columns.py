"""The columns of a run, derived from the fields of `Run`. Statements use these markers:

    {Run.*}          the columns of `stepwell_runs` with the names of the fields
    {:Run.*}         parameters with the same names; `rows.from_run` gives their values
    {Run.* to row}   what `rows.to_run` reads from `stepwell_run_rows`
    {Record.*}       what `rows.to_record` reads from `stepwell_record_rows`

Markers are replaced once, when the statements are loaded. A new field of `Run` becomes a column of the same name; no
statement that reads, exports or imports runs has to change. A field that SQLite stores in another form (an enumeration,
a boolean, a list) also needs a line in `rows.to_run` and one in `rows.from_run`.
"""

from __future__ import annotations

from typing import Final

from stepwell.model.records import Record
from stepwell.model.runs import Run

# Fields in other tables; the run's row refers to them.
_ELSEWHERE: Final = (
    *("workflow", "version", "priority", "owner"),
    *("input", "output", "failure", "tags", "title", "started_by", "headers", "retry", "attributes"),
)
_OWN: Final = tuple(name for name in Run._fields if name not in _ELSEWHERE)
# `parent` and `previous` are ids in the row; the other parts of both come last.
_PARTS: Final = ("parent_location", "detached", "tied", "previous_started_at", "previous_finished_at")
# In the view and in the table, the column `owner` is the owner's number.
_READ: Final = ("id", *("incarnation" if name == "owner" else name for name in Run._fields), *_PARTS)

_LISTS: Final = {
    "{Run.*}": ", ".join((*_OWN, *_PARTS)),
    "{:Run.*}": ", ".join(f":{name}" for name in (*_OWN, *_PARTS)),
    "{Run.* to row}": ", ".join(_READ),
    "{Record.*}": ", ".join(Record._fields),
}


def resolve(statement: str) -> str:
    """The statement with its markers replaced by columns."""
    for marker, columns in _LISTS.items():
        statement = statement.replace(marker, columns)
    return statement
