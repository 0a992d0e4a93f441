"""Advice: what to do next, as data. Each audience has its own renderer: Python, the command line, and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple


class Verb(StrEnum):
    """Everything that advice can tell a person to do."""

    CANCEL = "cancel"
    DELETE_TRIGGER = "trigger delete"
    DEPLOY = "deploy"
    FORK = "fork"
    LIST = "list"
    LIST_BULKS = "bulk list"
    LIST_DEAD = "outbox list"
    LIST_SIGNALS = "signals list"
    MARK_UNDONE = "rollback mark-undone"
    PAUSE = "pause"
    PUBLISH = "publish"
    REPLAY = "outbox replay"
    RESUME = "resume"
    RESUME_ALL = "resume all"
    RESUME_ROLLBACK = "rollback resume"
    RESUME_TRIGGER = "trigger resume"
    RESUME_WORKFLOW = "workflow resume"
    RETRY = "retry"
    REWIND = "rewind"
    SHOW = "show"
    SHOW_ALERT = "alert show"
    SHOW_LETTER = "dlq show"
    SHOW_SCHEDULE = "schedule show"
    SHOW_TRIGGER = "trigger show"
    SIGNAL = "signal"
    SKIP = "skip"
    WAKE = "wake"
    WATCH = "watch"
    WHY = "why"
    WORKER = "worker"

    @classmethod
    def _missing_(cls, value: object) -> Verb:
        # A newer release may have stored a verb that this one does not know. Showing the run is always possible.
        return cls.SHOW


class _Form(NamedTuple):
    """One verb for each audience. `{target}` and the names of options stand where their quoted values go."""

    call: str
    command: str
    method: str = ""
    path: str = ""


_FORMS: Final[Mapping[Verb, _Form]] = {
    Verb.CANCEL: _Form("engine.cancel({target})", "stepwell cancel {target}", "POST", "/api/runs/{target}/cancel"),
    Verb.DELETE_TRIGGER: _Form(
        "engine.triggers.delete({target})", "stepwell trigger delete {target}", "DELETE", "/api/triggers/{target}"
    ),
    Verb.DEPLOY: _Form("deploy code that fits this run", "deploy code that fits this run"),
    Verb.FORK: _Form(
        "engine.repairs.fork({target}, {path})",
        "stepwell fork --from={path} {target}",
        "POST",
        "/api/runs/{target}/fork",
    ),
    Verb.LIST: _Form("engine.runs.list()", "stepwell ls", "GET", "/api/runs"),
    Verb.LIST_BULKS: _Form("engine.bulks.list()", "stepwell bulk ls", "GET", "/api/bulks"),
    Verb.LIST_DEAD: _Form("engine.outbox.list_dead()", "stepwell outbox ls --dead", "GET", "/api/outbox/dead"),
    Verb.LIST_SIGNALS: _Form("engine.signals.list_unread()", "stepwell signals ls", "GET", "/api/signals/unread"),
    Verb.MARK_UNDONE: _Form(
        "engine.repairs.mark_undone({target}, {path}, reason=...)",
        "stepwell rollback mark-undone --reason=WHY {target} {path}",
        "POST",
        "/api/runs/{target}/mark-undone",
    ),
    Verb.PAUSE: _Form("engine.holds.pause({target})", "stepwell pause {target}", "POST", "/api/runs/{target}/pause"),
    Verb.PUBLISH: _Form("engine.publish({target}{fields})", "stepwell publish {target}{fields}", "POST", "/api/events"),
    Verb.REPLAY: _Form(
        "engine.outbox.replay({target})", "stepwell outbox replay {target}", "POST", "/api/outbox/{target}/replay"
    ),
    Verb.RESUME: _Form(
        "engine.holds.resume({target})", "stepwell resume {target}", "POST", "/api/runs/{target}/resume"
    ),
    Verb.RESUME_ALL: _Form("engine.holds.resume_workflow(None)", "stepwell resume --all", "POST", "/api/holds/resume"),
    Verb.RESUME_ROLLBACK: _Form(
        "engine.repairs.resume_rollback({target})",
        "stepwell rollback resume {target}",
        "POST",
        "/api/runs/{target}/resume-rollback",
    ),
    Verb.RESUME_TRIGGER: _Form(
        "engine.triggers.resume({target})", "stepwell trigger resume {target}", "POST", "/api/triggers/{target}/resume"
    ),
    Verb.RESUME_WORKFLOW: _Form(
        "engine.holds.resume_workflow({target})",
        "stepwell workflow resume {target}",
        "POST",
        "/api/workflows/{target}/resume",
    ),
    Verb.RETRY: _Form("engine.repairs.retry({target})", "stepwell retry {target}", "POST", "/api/runs/{target}/retry"),
    Verb.REWIND: _Form(
        "engine.repairs.rewind({target}, {path})",
        "stepwell rewind {target} {path}",
        "POST",
        "/api/runs/{target}/rewind",
    ),
    Verb.SHOW: _Form("engine.runs.history({target})", "stepwell show {target}", "GET", "/api/runs/{target}"),
    Verb.SHOW_ALERT: _Form(
        "engine.alerts.get({target})", "stepwell alert show {target}", "GET", "/api/alerts/{target}"
    ),
    Verb.SHOW_LETTER: _Form(
        "engine.dead_letters.get({target})", "stepwell dlq show {target}", "GET", "/api/dead-letters/{target}"
    ),
    Verb.SHOW_SCHEDULE: _Form(
        "engine.schedules.get({target})", "stepwell schedule show {target}", "GET", "/api/schedules/{target}"
    ),
    Verb.SHOW_TRIGGER: _Form(
        "engine.triggers.get({target})", "stepwell trigger show {target}", "GET", "/api/triggers/{target}"
    ),
    Verb.SIGNAL: _Form(
        "engine.signal({target}, {name})", "stepwell signal {target} {name}", "POST", "/api/runs/{target}/signals"
    ),
    Verb.SKIP: _Form(
        "engine.repairs.skip({target}, {path}, result)",
        "stepwell skip --result=JSON {target} {path}",
        "POST",
        "/api/runs/{target}/skip",
    ),
    Verb.WAKE: _Form("engine.runs.wake({target})", "stepwell wake {target}", "POST", "/api/runs/{target}/wake"),
    Verb.WATCH: _Form("engine.runs.watch({target})", "stepwell watch {target}", "GET", "/api/runs/{target}/changes"),
    Verb.WHY: _Form("engine.explain({target})", "stepwell why {target}", "GET", "/api/runs/{target}/why"),
    Verb.WORKER: _Form("Engine(url, workflows=[...])", "stepwell worker MODULE"),
}
_LOOKS: Final = frozenset(
    {
        Verb.LIST,
        Verb.LIST_BULKS,
        Verb.LIST_DEAD,
        Verb.LIST_SIGNALS,
        Verb.SHOW,
        Verb.SHOW_ALERT,
        Verb.SHOW_LETTER,
        Verb.SHOW_SCHEDULE,
        Verb.SHOW_TRIGGER,
        Verb.WATCH,
        Verb.WHY,
    }
)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do next. `target` is a run, workflow or topic; `note` is a condition, or what comes before it.

    The options of an event to publish are the fields that it needs, each as JSON.
    """

    verb: Verb
    target: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def has_command(self) -> bool:
        """Whether there is something to type. Code is deployed elsewhere."""
        return self.verb is not Verb.DEPLOY

    @property
    def is_look(self) -> bool:
        """Whether it only shows more, and changes nothing."""
        return self.verb in _LOOKS

    def as_python(self) -> str:
        """The call, for people who write Python."""
        return self._noted(self._fill(_FORMS[self.verb].call, repr, self._payload()))

    def as_command(self) -> str:
        """The line to type in a shell, after the note. Stored text in it cannot run, nor control a terminal."""
        return self._noted(self.command)

    @property
    def command(self) -> str:
        """The line to type in a shell, without the note."""
        form = _FORMS[self.verb].command
        values = (self.target, *self.options.values())
        # A value that begins with a dash is not an option: behind `--` nothing is.
        if any(value.startswith("-") for value in values):
            form = form.replace(" {target}", " -- {target}", 1)
        return self._fill(form, quote_for_shell, self._words())

    def as_http(self) -> dict[str, Any]:
        """The request and the command: each is empty for what the API, or the command line, cannot do."""
        from urllib.parse import quote

        form = _FORMS[self.verb]
        return {
            "verb": self.verb.value,
            "target": self.target,
            "options": dict(self.options),
            "note": self.note,
            "method": form.method,
            "path": self._fill(form.path, lambda value: quote(value, safe="", errors="replace")),
            "command": self.command if self.has_command else "",
        }

    def as_request(self) -> str:
        """The request in words, after the note; the act itself where the API has none."""
        form = _FORMS[self.verb]
        return self._noted(f"{form.method} {self.as_http()['path']}" if form.path else self.command)

    def _fill(self, form: str, quoted: Callable[[str], str], fields: str = "") -> str:
        values = {name: quoted(value) for name, value in self.options.items()}
        return form.format_map(_Values(values | {"target": quoted(self.target), "fields": fields}))

    def _payload(self) -> str:
        """The fields of an event, as the second argument of a call."""
        fields = {name: _read(value) for name, value in self.options.items()}
        return f", {fields!r}" if fields and self.verb is Verb.PUBLISH else ""

    def _words(self) -> str:
        """The fields of an event, as words of a command: `name=text`, or `name:=json` for what is not text."""
        if self.verb is not Verb.PUBLISH:
            return ""
        fields = [(name, value, _read(value)) for name, value in self.options.items()]
        words = [f"{name}={read}" if isinstance(read, str) else f"{name}:={value}" for name, value, read in fields]
        return "".join(f" {quote_for_shell(word)}" for word in words)

    def _noted(self, act: str) -> str:
        return f"{self.note}: {act}" if self.note else act


def _read(value: str) -> Any:
    """A value that is given as JSON; a value that is not JSON is text."""
    try:
        return json.loads(value)
    except ValueError:
        return value


class _Values(dict[str, str]):
    """What fills a form. A value that is not known is shown by its name in capitals."""

    def __missing__(self, name: str) -> str:
        return name.upper()


Fix = str | Advice | tuple[Advice, ...]
"""What an error says about its fix: words that are the same for every audience, or advice."""


def advice_of(fix: Fix) -> tuple[Advice, ...]:
    """The advice in a fix; none if it is words."""
    if isinstance(fix, str):
        return ()
    return (fix,) if isinstance(fix, Advice) else fix


def in_python(advice: Iterable[Advice]) -> str:
    """All of it in one line, for people who write Python."""
    return "; ".join(one.as_python() for one in advice)


def in_commands(advice: Iterable[Advice]) -> str:
    """All of it in one line, for people at a terminal."""
    return "; ".join(one.as_command() for one in advice)


def in_requests(advice: Iterable[Advice]) -> str:
    """All of it in one line, for clients of the HTTP API."""
    return "; ".join(one.as_request() for one in advice)


def quote_for_shell(text: str) -> str:
    """One word of a shell's command line, that a terminal shows and does not obey.

    Characters that cannot be printed are written as bash, zsh and ksh read them: `$'\\x1b'`.
    """
    if not text:
        return "''"
    if _SAFE.issuperset(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_spell, text)) + "'"


_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def _spell(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
