"""The columns of a run, derived from the fields of `Run`: a statement asks for all of them at once.

    {Run.*}          the columns of `stepwell_runs` that are called like the fields
    {:Run.*}         parameters with the same names; `rows.from_run` gives their values
    {Run.* to row}   what `rows.to_run` reads, out of `stepwell_run_rows`

Markers become text once, when the statements are loaded. A new field of `Run` is a column of the same name, and no
statement that reads, exports or imports runs changes for it. A field that SQLite stores in another form (an
enumeration, a boolean, a list) also needs a line in `rows.to_run` and one in `rows.from_run`.
"""

from __future__ import annotations

from typing import Final

from stepwell.model.runs import Run

# Fields that other tables hold; the run's row refers to them.
_ELSEWHERE: Final = ("workflow", "version", "priority", "owner", "input", "output", "failure", "tags")
_OWN: Final = tuple(name for name in Run._fields if name not in _ELSEWHERE)
# `parent` and `previous` are ids in the row; the other parts of both come last.
_PARTS: Final = ("parent_location", "detached", "tied", "previous_started_at", "previous_finished_at")
# The view has the owner's number under that name, because the table has.
_READ: Final = ("id", *("incarnation" if name == "owner" else name for name in Run._fields), *_PARTS)

_LISTS: Final = {
    "{Run.*}": ", ".join((*_OWN, *_PARTS)),
    "{:Run.*}": ", ".join(f":{name}" for name in (*_OWN, *_PARTS)),
    "{Run.* to row}": ", ".join(_READ),
}


def resolve(statement: str) -> str:
    """The statement with columns in the place of its markers."""
    for marker, columns in _LISTS.items():
        statement = statement.replace(marker, columns)
    return statement
