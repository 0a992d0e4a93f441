"""Where a setting comes from: the environment, then a file, then its default.

The environment has one name for each setting: `STEPWELL_LEASE` for `lease`. The file is `stepwell.toml`, or the table
`[tool.stepwell]` of `pyproject.toml`, in the nearest folder from the current one upwards that has one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from stepwell.config import SETTING_NAMES, WorkerSettings
from stepwell.errors import InvalidOptionError
from stepwell.nearest import nearest
from stepwell.urls import DB_DEFAULT, DEV_DB

PREFIX: Final = "STEPWELL_"
FILE: Final = "stepwell.toml"
PYPROJECT: Final = "pyproject.toml"
TABLE: Final = "tool.stepwell"

DB, APP, TOKENS = "db", "app", "tokens"
KEYS: Final = (DB, APP, TOKENS, *SETTING_NAMES)
ALERTS: Final = "alerts"  # a table of the file: the rules of alerts, by name

# Names in the environment that are not settings: secrets of incoming webhooks, and what steers tests.
_NOT_SETTINGS: Final = ("STEPWELL_HOOK_", "STEPWELL_TEST_")
_KINDS: Final = {each.name: str(each.type) for each in fields(WorkerSettings)}

OriginKind = Literal["option", "constructor", "environment", "file", "default"]


class Origin(NamedTuple):
    """Where a value was found: `where` is an option, an app, a variable, or a file with a line."""

    kind: OriginKind
    where: str = ""


class Found(NamedTuple):
    """A value and its origin."""

    value: Any
    origin: Origin


DEFAULT: Final = Origin("default")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings of one file, with the line of each."""

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def origin(self, key: str) -> Origin:
        """The file and the line of a key."""
        line = self.lines.get(key)
        return Origin("file", _shown(self.path) + ("" if line is None else f":{line}"))


class Sources:
    """The environment and the file that this process reads settings from. Both are read and checked once."""

    def __init__(self, environ: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        own = os.environ if environ is None else environ
        self._variables = {name: own[name] for name in own if name.startswith(PREFIX) and own[name]}
        for name in self._variables:
            _check_variable(name)
        self._folder = Path.cwd() if folder is None else folder
        self.file = _find_file(self._folder)

    def find(self, key: str) -> Found | None:
        """The value of a key in the environment or else in the file; None if neither has it."""
        variable = PREFIX + key.upper()
        if variable in self._variables:
            origin = Origin("environment", variable)
            return Found(_checked(key, _from_text(key, self._variables[variable], origin), origin), origin)
        if self.file is not None and key in self.file.values:
            origin = self.file.origin(key)
            value = _checked(key, _from_toml(key, self.file.values[key], origin), origin)
            return Found(_anchored(key, value, self.file.path.parent, self._folder), origin)
        return None

    def alerts(self) -> dict[str, Found]:
        """What the file says of each rule of an alert: a table by name, `[alerts."orders fail"]`."""
        if self.file is None or ALERTS not in self.file.values:
            return {}
        origin, rules = self.file.origin(ALERTS), self.file.values[ALERTS]
        if not isinstance(rules, dict) or not all(isinstance(rule, dict) for rule in rules.values()):
            example = '[alerts."orders fail"], and below it: count = 5'
            raise _wrong(ALERTS, origin, "alerts is not a table of rules, each with a name", example)
        shown, lines = _shown(self.file.path), self.file.lines
        found: dict[str, Found] = {}
        for name, rule in rules.items():
            line = lines.get(f"{ALERTS}.{name}")
            found[name] = Found(rule, Origin("file", shown if line is None else f"{shown}:{line}"))
        return found

    def settings(self, given: WorkerSettings | None = None, *, where: str = "") -> dict[str, Found]:
        """Every setting of a worker with its origin. What the constructor was given comes first; `where` names it."""
        found: dict[str, Found] = {}
        for name in SETTING_NAMES:
            if given is not None and name in given.given:
                found[name] = Found(getattr(given, name), Origin("constructor", where))
            else:
                found[name] = self.find(name) or Found(getattr(_DEFAULTS, name), DEFAULT)
        return found


_DEFAULTS: Final = WorkerSettings()


def read_settings(given: WorkerSettings | None = None) -> WorkerSettings:
    """The settings of a worker: what the constructor was given, then the environment, the file and the defaults.

    Raises `InvalidOptionError` for a value that cannot be used, and for an unknown name in the environment or the file.
    """
    if given is not None and given.is_complete:
        return given
    return WorkerSettings(**{name: found.value for name, found in Sources().settings(given).items()})


def find_database(url: str | None, sources: Sources | None = None, *, where: str = "") -> Found:
    """The URL of an application's database, and its origin. `where` names the app that the URL is of.

    Without a URL it is that of the environment or the file, that of `stepwell dev` in this folder, or the default.
    """
    if url is not None:
        return Found(url, Origin("constructor", where))
    found = (sources or Sources()).find(DB)
    if found is not None:
        return found
    if os.path.exists(DEV_DB.removeprefix("sqlite:///")):  # noqa: PTH110  pathlib is slow
        return Found(DEV_DB, Origin("default", "stepwell dev"))
    return Found(DB_DEFAULT, DEFAULT)


# --- the environment ---


def _check_variable(name: str) -> None:
    if name.startswith(_NOT_SETTINGS) or name.removeprefix(PREFIX).lower() in KEYS:
        return
    known = [PREFIX + key.upper() for key in KEYS]
    near = [PREFIX + key.upper() for key in nearest(name.removeprefix(PREFIX), KEYS)]
    raise InvalidOptionError(
        f"{name} is not a setting{_did_you_mean(near)}",
        where=f"environment variable {name}",
        why=f"names that begin with {PREFIX} belong to stepwell, so this one is probably misspelled",
        fix=f"unset {name}, or write one of: {', '.join(known)}",
    )


def _from_text(key: str, text: str, origin: Origin) -> Any:
    if _KINDS.get(key) != "int":
        return text
    try:
        return int(text)
    except ValueError:
        raise _wrong(key, origin, f"{key} is {text!r}, which is not a whole number", f"{origin.where}=100") from None


# --- files ---


def _find_file(folder: Path) -> SettingsFile | None:
    for parent in (folder, *folder.parents):
        found = [file for file in _files_in(parent) if file is not None]
        if len(found) > 1:
            raise InvalidOptionError(
                f"{FILE} and [{TABLE}] of {PYPROJECT} both have settings",
                where=str(parent),
                why="only one file of a folder is read",
                fix=f"move all settings to {FILE}",
            )
        if found:
            if parent != folder:
                _check_owner(found[0].path)
            return found[0]
    return None


def _files_in(folder: Path) -> Iterator[SettingsFile | None]:
    for name in (FILE, PYPROJECT):
        path = os.path.join(folder, name)  # noqa: PTH118  pathlib is slow, and every engine looks
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError:
            continue
        yield _read_file(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _read_file(file: str, _changed_ns: int, _size: int) -> SettingsFile | None:
    """The settings of a file; None for a `pyproject.toml` without any. Read again when the file has changed."""
    import tomllib

    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"cannot read {path.name}: {error}", where=str(path)) from error
    if path.name == PYPROJECT and TABLE not in text.replace(" ", ""):
        return None  # parsing takes milliseconds, and most have no such table
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOptionError(f"{path.name} is not valid TOML", where=_shown(path), why=str(error)) from error
    if path.name == PYPROJECT:
        document = document.get("tool", {}).get("stepwell")
        if document is None:
            return None
    lines = dict(_lines(text, TABLE if path.name == PYPROJECT else ""))
    made = SettingsFile(path, document, lines)
    for key in document:
        if key not in KEYS and key != ALERTS:
            raise InvalidOptionError(
                f"{key!r} is not a setting{_did_you_mean(nearest(key, KEYS))}",
                where=made.origin(key).where,
                fix=f"remove it, or write one of: {', '.join((*KEYS, ALERTS))}",
            )
    return made


_HEADER: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_RULE: Final = re.compile(r"""(?:^|\.)\s*alerts\s*\.\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*$""")
_KEY: Final = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*(?:=|\.)""")


def _lines(text: str, table: str) -> Iterator[tuple[str, int]]:
    """The keys of a table with their lines. The parser of the standard library does not report lines."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            current = re.sub(r"\s|[\"']", "", header[1])
            if current.rpartition(".")[0] == table:
                yield current.rpartition(".")[2], number
            if rule := _RULE.search(header[1]):
                yield f"{ALERTS}.{rule[1].strip(chr(34) + chr(39))}", number
        elif current == table and (key := _KEY.match(line)):
            yield key[1], number


def _from_toml(key: str, value: Any, origin: Origin) -> Any:
    kind = _KINDS.get(key, "str")
    if kind == "int":
        is_right, wanted, example = type(value) is int, "a whole number", f"{key} = 100"
    elif kind == "Duration":
        is_right, wanted, example = type(value) in (str, int, float), "a duration", f'{key} = "30s"'
    else:
        is_right, wanted, example = isinstance(value, str), "a text", f'{key} = "…"'
    if not is_right:
        raise _wrong(key, origin, f"{key} is {value!r}, which is not {wanted}", example)
    return value


def _anchored(key: str, value: Any, folder: Path, current: Path) -> Any:
    """A relative path of a file is relative to the folder of that file, wherever the command is run."""
    if folder == current:
        return value
    if key == TOKENS:
        return str(folder / value)
    if key == DB and value.lower().startswith("sqlite:///") and not value[len("sqlite:///") :].startswith("/"):
        return f"sqlite:///{quote(str(folder))}/{value[len('sqlite:///') :]}"
    if key == APP:
        module, colon, name = value.partition(":")
        file = folder / (module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
        return f"{file}{colon}{name}" if file.is_file() or module.endswith(".py") else value
    return value


def _check_owner(path: Path) -> None:
    """Reject a file above the current folder that another user owns: it could name code that this user would run."""
    if os.name != "posix":
        return
    owner = path.stat().st_uid
    if owner not in (0, os.geteuid()):
        raise InvalidOptionError(
            f"{path} belongs to another user",
            where=str(path),
            why="a settings file names code to run, and this one is not in the current folder",
            fix=f"run the command in {path.parent}, or make the file yours",
        )


# --- words and checks ---


def _checked(key: str, value: Any, origin: Origin) -> Any:
    """A value of a worker's setting, checked by the rule of `WorkerSettings`."""
    if key in SETTING_NAMES:
        try:
            WorkerSettings(**{key: value})
        except InvalidOptionError as error:
            raise _wrong(key, origin, error.title, error.fix, error.why) from None
    return value


def _wrong(key: str, origin: Origin, title: str, fix: str, why: str = "") -> InvalidOptionError:
    place = f"environment variable {origin.where}" if origin.kind == "environment" else f"{origin.where}, key {key}"
    return InvalidOptionError(title, where=place, why=why, fix=fix)


def _did_you_mean(near: list[str]) -> str:
    return f". Did you mean {' or '.join(near)}?" if near else ""


def _shown(path: Path) -> str:
    """A path as people read it: the name alone if it is in the current folder."""
    return path.name if path.parent == Path.cwd() else str(path)
