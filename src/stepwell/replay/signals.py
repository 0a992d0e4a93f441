"""Signals as code names them: by a plain name, or by a `Signal` with a name and the type of its payload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from stepwell.codec.addressed import encode_signal
from stepwell.codec.base import Codec, Payload, Place
from stepwell.errors import InvalidInputError, InvalidOptionError, NotFoundError
from stepwell.model.locations import check_name
from stepwell.nearest import nearest

T = TypeVar("T")
R = TypeVar("R")


class Signal(Generic[T]):
    """A signal with the type of its payload: `approve = Signal[Approval]("approve")`.

    Pass it to `engine.signal` and `ctx.receive` instead of a name. The sender checks the payload: a payload that does
    not fit is rejected with all violations, and nothing is stored. `check` is called with the payload, and rejects it
    by raising. It must depend only on the payload, because both sides call it.
    """

    __orig_class__: Any

    def __init__(self, name: str, *, check: Callable[[T], object] | None = None) -> None:
        self.name = check_name(name, what="signal name")
        self._check = check

    @property
    def hint(self) -> Any:
        """The type of the payload; `Any` if none was given."""
        given = get_args(getattr(self, "__orig_class__", None))
        return given[0] if given else Any

    @property
    def reply_hint(self) -> Any:
        """The type of the reply to it."""
        return Any

    def find_problem(self, payload: T) -> str | None:
        """Why the check rejects a payload; None if it does not."""
        if self._check is None:
            return None
        try:
            self._check(payload)
        except Exception as error:  # noqa: BLE001  any exception of an author's check is its verdict
            return str(error) or type(error).__name__
        return None

    def __repr__(self) -> str:
        return f"<signal {self.name}>"


class Request(Signal[T], Generic[T, R]):
    """A signal that is answered: `review = Request[Draft, Verdict]("review")`, for `engine.ask`."""

    @property
    def reply_hint(self) -> Any:
        """The type of the reply; `Any` if none was given."""
        given = get_args(getattr(self, "__orig_class__", None))
        return given[1] if len(given) > 1 else Any


@dataclass(frozen=True, slots=True)
class Cancel:
    """The control signal that cancels a run: `engine.signal(run, Cancel("not needed"))`.

    The engine handles it like `engine.cancel`. It never enters a mailbox, so no code can read it.
    """

    reason: str = ""
    compensate: bool = True


Unread = Literal["dead_letter", "discard", "continue", "topic"]


class MailboxRules(NamedTuple):
    """What a workflow declares about the mailboxes of its runs."""

    unread: Unread = "dead_letter"
    declared: Mapping[str, str | Signal[Any]] | None = None  # by name; None: any signal may be sent

    def find(self, signal: str | Signal[Any], workflow: str) -> str | Signal[Any]:
        """The declared signal of this name, if signals are declared. Raises `NotFoundError` for an undeclared name."""
        name = name_of(signal)
        if self.declared is None:
            return signal
        if name not in self.declared:
            known = ", ".join(self.declared) or "none"
            fix = f"workflow {workflow} takes: {known}"
            raise NotFoundError("signal", name, near=nearest(name, self.declared), fix=fix)
        return signal if isinstance(signal, Signal) else self.declared[name]


def mailbox_rules(workflow: str | None, unread: Unread, signals: Iterable[str | Signal[Any]] | None) -> MailboxRules:
    """The rules of `@workflow(unread=…, signals=…)`. Raises `InvalidOptionError` for invalid options."""
    if unread not in get_args(Unread):
        at = f" of workflow {workflow!r}" if workflow else ""
        raise InvalidOptionError(f"unread{at} is {unread!r}", fix='use "dead_letter", "discard", "continue" or "topic"')
    return MailboxRules(unread, None if signals is None else {name_of(signal): signal for signal in signals})


class SignalSelection(NamedTuple):
    """Which signals a receiver takes (all, if it names none), and the declared types of their payloads."""

    names: tuple[str, ...] = ()
    typed: Mapping[str, Signal[Any]] = {}


def wanted(signals: Iterable[str | Signal[Any]]) -> SignalSelection:
    """The selection that the arguments of a receive describe. Raises for an invalid name."""
    names, typed = [], {}
    for each in signals:
        names.append(name_of(each))
        if isinstance(each, Signal):
            typed[each.name] = each
    return SignalSelection(tuple(names), typed)


def name_of(signal: str | Signal[Any]) -> str:
    """The name of a signal. Raises `InvalidNameError`, or `InvalidOptionError` if it is not a signal at all."""
    if isinstance(signal, Signal):
        return signal.name
    if not isinstance(signal, str):
        raise InvalidOptionError(f"{signal!r} is not a signal", fix='pass a name or a Signal[...]("name")')
    return check_name(signal, what="signal name")


def encode_payload(codec: Codec, signal: str | Signal[Any], payload: Any, *, target: str) -> Payload:
    """A payload encoded for a target. Raises `InvalidInputError` if it does not fit the signal's type."""
    if not isinstance(signal, Signal):
        return encode_signal(codec, payload, target=target, name=signal)
    value = codec.validate(payload, signal.hint, place=Place("", signal.name, "the payload"))
    problem = signal.find_problem(value)
    if problem is not None:
        raise InvalidInputError(
            f"the check of signal {signal.name!r} rejects the payload",
            [problem],
            where=f"signal {signal.name}",
            fix="send a payload that the check accepts; nothing was stored",
        )
    return encode_signal(codec, value, target=target, name=signal.name, hint=signal.hint)
