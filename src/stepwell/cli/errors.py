"""Errors on the command line: a message on stderr and an exit code, which the class of the error decides."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any

import click

from stepwell import errors
from stepwell.cli.settings import Settings
from stepwell.cli.texts import clean, dump_json

UNEXPECTED, USAGE, NOT_FOUND, CONFLICT, STORE, RUN_FAILED, TIMED_OUT, PROBLEMS, PARTLY, INTERRUPTED = (
    1,
    2,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    130,
)

# The first matching group decides.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.NotFoundError, NOT_FOUND),
    (errors.InvalidMoveError, CONFLICT),
    (errors.RepairConflictError, CONFLICT),
    (errors.AlreadyExistsError, CONFLICT),
    (errors.RequestError, USAGE),
    (errors.DefinitionError, USAGE),
    (errors.StoreError, STORE),
    (errors.ResultTimeout, TIMED_OUT),
    (errors.RunError, RUN_FAILED),
    (errors.ReplayError, RUN_FAILED),
)


def report(error: Exception, settings: Settings, words: Sequence[str] = ()) -> int:
    """Print an error and give its exit code."""
    if isinstance(error, click.exceptions.Abort):
        return INTERRUPTED
    if settings.debug or "--debug" in words:
        traceback.print_exception(error, file=sys.stderr)
    facts, code = describe(error)
    if settings.output in ("json", "jsonl") or _asks_for_json(words):
        text = dump_json({"error": facts}, is_compact=True)
    else:
        text = _in_words(facts)
    click.echo(text, err=True, color=False)
    return code


def describe(error: Exception) -> tuple[dict[str, Any], int]:
    """The fields of an error, and its exit code."""
    error = readable(error)
    if isinstance(error, errors.StepwellError):
        code = next((code for kind, code in _CODES if isinstance(error, kind)), UNEXPECTED)
        facts: dict[str, Any] = {
            "code": error.code,
            "message": error.title,
            "where": error.where,
            "why": error.why,
            "fix": error.fix_in_commands,
        }
        if isinstance(error, errors.InvalidInputError):
            facts["violations"] = list(error.violations)
        return facts, code
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        fix = "" if context is None else f"{context.command_path} --help"
        return _facts(errors.RequestError.code, error.format_message(), fix=fix), USAGE
    return _unexpected(error), UNEXPECTED


def readable(error: Exception) -> Exception:
    """The error, or a `CorruptRecordError` if stored bytes could not be decoded."""
    import msgspec

    if not isinstance(error, msgspec.MsgspecError | UnicodeDecodeError):
        return error
    from stepwell.stores.base.damage import FIX, cause_of

    return errors.CorruptRecordError("a stored value cannot be read", why=cause_of(error), fix=FIX)


def _unexpected(error: Exception) -> dict[str, Any]:
    """A bug of stepwell. The report has places in the code and no values: a message may quote a payload."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="stepwell-report-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"{type(error).__module__}.{type(error).__qualname__}\n")
        file.writelines(traceback.format_tb(error.__traceback__))
    return _facts(
        "SW999",
        f"Something is wrong in stepwell itself ({type(error).__name__}: {error})",
        why="this is a bug of stepwell; whether the command took effect is not known",
        fix=f"please report it with {file.name} (it has places in the code, and no values), or look with --debug",
    )


def _facts(code: str, message: str, *, why: str = "", fix: str = "") -> dict[str, Any]:
    return {"code": code, "message": message, "where": "", "why": why, "fix": fix}


def _in_words(facts: dict[str, Any]) -> str:
    lines = [f"{facts['code']}  {clean(facts['message'])}"]
    for label in ("where", "why", "fix"):
        said = facts.get("violations") if label == "why" else None
        for number, text in enumerate(said or [facts[label]]):
            if text:
                lines.append(f"  {label if number == 0 else '':<7} {clean(text)}")
    return "\n".join(lines)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, for errors that occur before its options are parsed."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        value = after if word in ("-o", "--output") else word.removeprefix("--output=").removeprefix("-o")
        if value in ("json", "jsonl") and value != word:
            return True
    return False
