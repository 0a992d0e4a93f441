"""The undo stack that a run hands to its successor when it continues as new."""

from __future__ import annotations

from stepwell.codec.base import ANY, Codec, Place, Row
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.entries import Entry
from stepwell.model.locations import Names, carried_from, carry
from stepwell.model.states import EntryKind
from stepwell.replay.compensations import has_name, signature_of
from stepwell.replay.headers import pack, unpack
from stepwell.replay.journal import Journal
from stepwell.replay.parameters import count_given_first
from stepwell.replay.steps import find_compensation, find_step


def check_findable(journal: Journal) -> None:
    """Reject continue-as-new if the successor could not run a pending compensation.

    The code of the successor does not pass the places of this run, so it must find a compensation by its name.
    """
    for entry in journal.left_to_undo(0):
        if not carried_from(entry.location) and not _is_findable(entry):
            path = journal.names.text(entry.location)
            raise InvalidOptionError(
                f"continue_as_new would lose the compensation of {path}",
                where=path,
                why="the successor has to find the compensation by name, and cannot: it is not a function at the top "
                "of a module, or its parameters have no annotations",
                fix="write `def undo(...)` with annotations at the top of a module and @step(compensate=undo); or drop "
                'the compensation: ctx.continue_as_new(..., compensations="drop")',
            )


def _is_findable(entry: Entry) -> bool:
    if not has_name(entry):
        return False
    header, _ = unpack(entry.undo or b'["",""]\n')
    compensation = find_compensation(header[1])
    if not header[0]:
        return True
    if find_step(header[0]) is not None or compensation is None:
        return compensation is not None
    signature = signature_of(compensation)
    return all(one.hint is not ANY for one in signature.parameters[count_given_first(signature) :])


class Carrier:
    """Turns entries of one run into entries of its successor, each at a place of its own (`~run1/charge`)."""

    def __init__(self, workflow: str, run_id: RunId, successor: RunId, journal: Journal, codec: Codec) -> None:
        self._workflow = workflow
        self._run_id = run_id
        self._successor = successor
        self._journal = journal
        self._codec = codec
        self._own = 1 + max(journal.names.origins, default=0)  # this run's number in the chain
        self._names = Names()

    def carry(self) -> tuple[tuple[str, ...], tuple[Entry, ...]]:
        """The names and entries that the successor begins with: the entries left to undo, in commit order."""
        pending = reversed(self._journal.left_to_undo(0))
        entries = tuple(self._entry(seq, entry) for seq, entry in enumerate(pending, 1))
        return self._names.texts, entries

    def _entry(self, seq: int, entry: Entry) -> Entry:
        before, texts = self._journal.names, self._journal.names.texts
        number = carried_from(entry.location)
        header, arguments = unpack(entry.undo or b'["",""]\n')
        origin = before.origins.get(number, self._run_id)
        location = carry(entry.location, number or self._own, lambda old: self._names.number(texts[old]))
        old, new = before.text(entry.location), self._names.text(location)
        undo = pack([*header[:2], origin], self._rebind(arguments, old, new, "undo"))
        return entry._replace(seq=seq, location=location, value=self._value(entry, old, new), undo=undo)

    def _value(self, entry: Entry, old: str, new: str) -> bytes:
        match entry.kind:
            case EntryKind.EFFECT | EntryKind.BEGUN:
                return entry.value  # it has none
            case EntryKind.CHILD:
                header, value = unpack(entry.value)
                return pack(header, self._rebind(value, old, new, "value"))
            case _:
                return self._rebind(entry.value, old, new, "value")

    def _rebind(self, payload: bytes, old: str, new: str, field: str) -> bytes:
        place = Place(self._workflow, old, "the recorded value", row=Row(self._run_id, old, field))
        return self._codec.rebind(payload, place=place, to=place._replace(row=Row(self._successor, new, field)))
