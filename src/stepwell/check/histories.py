"""History files: a packed run, as `move` packs it, in JSON that people can read and compare.

A file names its format (`stepwell.history-file/2`) and has the fields of `PackedRun` by name. Within a format, fields
are only added, and a reader ignores unknown fields. A new format number means that older readers must reject the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.errors import HistoryFileError
from stepwell.model.locations import format_path
from stepwell.model.plain import from_plain, to_plain
from stepwell.model.runs import History, Inbox, Run
from stepwell.printable import escape_json
from stepwell.stores.base.packed_items import PackedRun

KIND: Final = "stepwell.history-file"
FORMAT: Final = 2
# Fields that have a meaning only in the store that holds the run.
_OF_THE_STORE: Final[dict[str, Any]] = {
    **{"epoch": 0, "owner": None, "revision": 0, "wake_at": None, "stalls": 0, "successor": None, "hold": None},
    **{"replaced_by": None, "debounced_until": None},
}


class Recording(NamedTuple):
    """One run with its whole record: the input of a replay."""

    run: Run
    history: History
    is_redacted: bool = False
    written_by: str = ""  # the release of stepwell that wrote the file
    inbox: Inbox = Inbox()  # messages that the run has not recorded yet; not in files


def write(recording: Recording, path: str | Path) -> None:
    """Write a history file. An existing file is replaced."""
    Path(path).write_bytes(dump(recording))


def dump(recording: Recording) -> bytes:
    """The content of a history file. Equal recordings give equal bytes."""
    names = recording.history.names
    packed = PackedRun(recording.run._replace(**_OF_THE_STORE), history=recording.history)
    file = {
        "schema": f"{KIND}/{FORMAT}",
        "stepwell": recording.written_by or version("stepwell"),
        "redacted": recording.is_redacted,
        **to_plain(packed),
        "history": to_plain(packed.history, lambda location: format_path(location, names)),
    }
    text = msgspec.json.format(msgspec.json.encode(file), indent=1).decode()
    return escape_json(text).encode() + b"\n"  # the command line prints it, too


def find(pattern: str) -> Iterator[tuple[str, Recording]]:
    """Every history file that matches a pattern such as `histories/*.json`, with its name, in order.

    Raises `HistoryFileError` if no file matches: a check without files would always pass.
    """
    names = sorted(glob(pattern, recursive=True))  # noqa: PTH207  a pattern as people write it, absolute or not
    if not names:
        raise HistoryFileError(
            f"no history file matches {pattern}", fix="type: stepwell export RUN -o histories/NAME.json"
        )
    for name in names:
        yield name, read(name)


def read(path: str | Path) -> Recording:
    """The recording in a history file. Raises `HistoryFileError` if this release cannot read the file."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise HistoryFileError(
            f"{path} cannot be read", where=str(path), why=error.strerror or str(error), fix="name a history file"
        ) from error
    return load(content, where=str(path))


def load(content: bytes, *, where: str = "") -> Recording:
    """The recording that `dump` wrote."""
    try:
        file = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse(where, f"it is not valid JSON: {error}") from error
    schema = file.get("schema", "")
    if schema != f"{KIND}/{FORMAT}":
        raise _refuse(where, f"its schema is {schema!r}; this release reads {KIND}/{FORMAT}")
    try:
        packed = from_plain(PackedRun, {**file, "history": file["history"]})
        return Recording(packed.run, packed.history, file["redacted"] is True, str(file["stepwell"]))
    except KeyError as error:
        raise _refuse(where, f"it has no {error}") from error
    except ValueError as error:
        raise _refuse(where, str(error)) from error


def _refuse(where: str, why: str) -> HistoryFileError:
    return HistoryFileError(
        f"{where or 'this'} is not a history file that this release can read",
        where=where,
        why=why,
        fix="write it again with `stepwell export RUN`, or read it with the release that wrote it",
    )
