"""Whether what several clients saw could have happened one after the other (linearizability), after Wing and Gong.

Each call took effect at one moment between its beginning and its end, or the history is wrong. A call whose answer was
lost may have taken effect at any later moment, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S")

UNKNOWN = object()  # the answer of a call whose answer was lost


class Operation(NamedTuple):
    """One call of one client."""

    client: int
    call: str
    argument: Any
    answer: Any
    began: int
    ended: int  # of a call without an answer: after everything

    def __str__(self) -> str:
        answer = "?" if self.answer is UNKNOWN else self.answer
        return f"[{self.began:>4} {self.ended:>4}]  client {self.client}  {self.call}({self.argument}) -> {answer}"


class Model(Protocol[S]):
    """What one object does when nobody disturbs anybody."""

    @property
    def first(self) -> S:
        """How it begins."""
        ...

    def after(self, state: S, operation: Operation) -> Iterable[S]:
        """Every state that the operation may lead to; none, if its answer does not fit."""
        ...


class Linearizer(Generic[S]):
    """Looks for an order of operations that explains all answers."""

    def __init__(self, model: Model[S], operations: Sequence[Operation]) -> None:
        self._model = model
        self._operations = sorted(operations, key=lambda operation: operation.began)
        self._seen: set[tuple[int, S]] = set()
        self.longest: tuple[Operation, ...] = ()  # the order that explains most, if none explains all

    def is_linearizable(self) -> bool:
        """Whether there is one."""
        todo: list[tuple[int, S, tuple[Operation, ...]]] = [(0, self._model.first, ())]
        while todo:
            done, state, order = todo.pop()
            if len(order) > len(self.longest):
                self.longest = order
            left = [number for number in range(len(self._operations)) if not done >> number & 1]
            if all(self._operations[number].answer is UNKNOWN for number in left):
                return True
            soonest = min(self._operations[number].ended for number in left)
            for number in left:
                operation = self._operations[number]
                if operation.began > soonest:
                    break  # it began after another one had ended that is not explained yet
                for following in self._model.after(state, operation):
                    known = (done | 1 << number, following)
                    if known not in self._seen:
                        self._seen.add(known)
                        todo.append((*known, (*order, operation)))
        return False
