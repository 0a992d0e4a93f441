"""The columns of a run, derived from the fields of `Run`: a statement asks for all of them at once.

    {Run.*}          the columns of `stepwell_runs` that are called like the fields
    {:Run.*}         parameters with the same names; `rows.from_run` gives their values
    {Run.* to row}   what `rows.to_run` reads, out of `stepwell_run_rows`

Names become text once, when the statements are read. A new field of `Run` is a column of the same name, and no
statement that reads, exports or imports runs has to be changed for it. One that SQLite stores in another form than the
model has it (an enumeration, a boolean, a list) has a line in `rows.to_run` and in `rows.from_run`, too.
"""

from __future__ import annotations

from typing import Final

from stepwell.model.runs import Run

# Fields that other tables have; the run's row refers to those.
_ELSEWHERE: Final = ("workflow", "version", "priority", "owner", "input", "output", "failure", "tags")
_OWN: Final = tuple(name for name in Run._fields if name not in _ELSEWHERE)
# `parent` and `previous` are ids in the row; what else is known of both comes last.
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
