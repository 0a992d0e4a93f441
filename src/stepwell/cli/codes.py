"""What is known of each error's code, from the classes themselves: no page can be missing or say something else."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, NamedTuple

from stepwell import errors
from stepwell.cli.errors import USAGE, describe
from stepwell.errors import NotFoundError, StepwellError
from stepwell.nearest import nearest

_UNEXPECTED = "SW999"
_ACTS = {
    "DefinitionError": "The author changes the code that names it, and deploys it again.",
    "ReplayError": "The author mends the code; then an operator lets the run go on: stepwell resume RUN.",
    "RunError": "An author may catch it in the workflow. Of a failed run, look at its tree, mend the cause and: "
    "stepwell retry RUN.",
    "RequestError": "The caller asks again, rightly. Nothing was stored.",
    "SinkError": "Nobody at once: it is tried again, and kept as a dead letter in the end.",
    "StoreError": "The operator of the database. Runs are safe, and go on when it can be reached: stepwell doctor.",
    "StepwellError": "It depends on the code that is inside of it.",
}


class Page(NamedTuple):
    """What there is to say about one code."""

    code: str
    name: str
    meaning: str
    detail: str
    group: str
    acts: str
    exit_code: int
    related: tuple[str, ...]

    def body(self) -> dict[str, Any]:
        """For programs."""
        return {**self._asdict(), "related": list(self.related)}

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"{self.code}  {self.name}", "", f"  {self.meaning}"]
        lines += ["", *(f"  {line}" if line else "" for line in self.detail.splitlines())] if self.detail else []
        lines += ["", f"  who acts   {self.acts}", f"  exit code  {self.exit_code}"]
        if self.related:
            lines.append(f"  related    {', '.join(self.related)}")
        return lines


def list_codes() -> list[str]:
    """Every code, in order."""
    return sorted(_pages())


def find_page(code: str) -> Page:
    """The page of a code. Raises `NotFoundError` with the nearest ones."""
    wanted = code.strip().upper()
    page = _pages().get(wanted)
    if page is None:
        raise NotFoundError("error code", code, near=nearest(wanted, _pages()), fix="stepwell explain lists them all")
    return page


@cache
def _pages() -> dict[str, Page]:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, StepwellError) and kind.__module__.startswith("stepwell.errors")
    ]
    pages = {kind.code: _page(kind, kinds) for kind in kinds}
    meaning = "Something is wrong in stepwell itself. The runs are safe."
    report = "Report it with the file that the message names: it has the places in the code, and no payloads."
    pages[_UNEXPECTED] = Page(_UNEXPECTED, "unexpected", meaning, "", "", report, 1, ())
    return pages


def _page(kind: type[StepwellError], kinds: list[type[StepwellError]]) -> Page:
    meaning, _, detail = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    line = [
        base for base in kind.__mro__ if base.__module__.startswith("stepwell.errors") and base is not StepwellError
    ]
    group = line[-1] if line else StepwellError
    siblings = sorted(other.code for other in kinds if other is not kind and other.__bases__ == kind.__bases__)
    return Page(
        kind.code,
        kind.__name__,
        " ".join(meaning.split()),
        detail,
        group.__name__,
        _ACTS.get(group.__name__, ""),
        _exit_code(kind),
        tuple(siblings),
    )


def _exit_code(kind: type[StepwellError]) -> int:
    error = kind.__new__(kind)
    StepwellError.__init__(error, "")
    if isinstance(error, errors.InvalidInputError):
        return USAGE
    return describe(error)[1]
