"""Switches that break looks at the mailbox, replies, and starting with a signal."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, switches
from stepwell.model.signals import Delivered, Delivery
from stepwell.replay.journal import Journal
from stepwell.replay.observations import Observations
from stepwell.replay.primitives import observe
from stepwell.replay.turn import Turn
from stepwell.stores.sqlite.transitions import commits, signals, starts


def looks_use_nothing() -> Patches:
    """What was seen stays in the mailbox for ever."""
    return [(Observations, "_consume", lambda self, signals: None)]


def look_takes_too_much() -> Patches:
    """Work that is done uses up the whole mailbox, whatever was seen of it."""
    original = Observations.passed

    def passed(self: Observations, scope: Any, entry: Any, *, is_new: bool) -> None:
        original(self, scope, entry, is_new=is_new)
        if is_new:
            self._consume(signal for signal in tuple(self._mailbox.signals) if signal.ask_id is None)

    return [(Observations, "passed", passed)]


def look_sees_what_is_gone() -> Patches:
    """What a look has used is still shown to the next one."""

    def consume(self: Observations, signals: Any) -> None:
        for signal in tuple(signals):
            if signal.number not in self._journal.pending.extras.consumed:
                self._journal.consume(signal.number)

    return [(Observations, "_consume", consume)]


def look_made_again() -> Patches:
    """A replay looks into the mailbox as it is now."""
    original = observe._look

    def look(scope: Any, show: Any, signals: Any) -> Any:
        found, messages = original(scope, show, signals)
        if scope.turn.is_replaying:
            names = tuple(one if isinstance(one, str) else one.name for one in signals)
            return bool(scope.turn.mailbox.look(names, scope.location)), messages[:0]
        return found, messages

    return [(observe, "_look", look)]


def reply_not_in_commit() -> Patches:
    """A reply is recorded, and never sent."""
    return [(Journal, "reply", lambda self, reply: None)]


def reply_kept_for_later() -> Patches:
    """A reply is written after the commit that records it, if at all."""
    original = commits._answer
    return [(commits, "_answer", lambda tx, run, commit: original(tx, run, commit._replace(replies=())))]


def start_without_its_signal() -> Patches:
    """A run that a signal starts does not get the signal."""
    original = signals.deliver_or_create

    def deliver_or_create(tx: Any, signal: Any, run: Any, claimant: Any) -> Any:
        is_known = tx.find("signals.find", signal_id=signal.signal_id) is not None
        if is_known or tx.find("runs.find_active_of_key", key=run.key) is not None:
            return original(tx, signal, run, claimant)
        [created] = starts.create(tx, [run], claimant)
        claimed = [] if created.claimed is None else [created.claimed]
        return created, Delivered(Delivery.DELIVERED, created.run_id), claimed

    return [(signals, "deliver_or_create", deliver_or_create)]


def receipt_among_rivals() -> Patches:
    """A receipt is made durable later although something else could come first in a replay."""
    return [(Turn, "has_rivals", False)]


def time_of_a_later_receipt() -> Patches:
    """The code looks at the time of a receipt that is not durable, and tells it to a body."""
    return [(Journal, "pin", lambda self: None)]


SIGNAL_SWITCHES = switches(
    looks_use_nothing,
    look_takes_too_much,
    look_sees_what_is_gone,
    look_made_again,
    reply_not_in_commit,
    reply_kept_for_later,
    start_without_its_signal,
    receipt_among_rivals,
    time_of_a_later_receipt,
)
