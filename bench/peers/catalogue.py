"""Who takes part, with which settings, and how much of each workload it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Place = Literal["sqlite", "postgres", "restate", "temporal"]

WORKLOADS: Mapping[str, Mapping[str, Any]] = {
    "W1": {"steps": 1_000},
    "W2": {"runs": 1_000, "steps": 10},
    "W3": {"runs": 500, "seconds": 4},
    "W4": {"runs": 300, "seconds": 4},
    "W5": {"runs": 2_000, "seconds": 2},
    "W6": {"runs": 500, "steps": 20},
    "W7": {"runs": 10_000, "settle": 1, "idle": 4},
    "W8": {"lengths": [100, 1_000, 10_000], "history": 10_000, "settle": 0.5},
}
"""The whole of each; `seconds` of W3 and W4 is when they stop, however few there were."""


@dataclass(frozen=True)
class Participant:
    """One engine on one kind of storage."""

    name: str
    title: str
    driver: str  # the module below `drivers`
    place: Place
    package: str  # whose version is told
    requirements: str | None = None  # the file below `requirements`; None: what is installed for stepwell itself
    less: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what differs from WORKLOADS
    only: tuple[str, ...] = tuple(WORKLOADS)  # the workloads that it takes part in

    def order(self, workload: str) -> dict[str, Any]:
        """What its driver is told to do."""
        return {"workload": workload, **WORKLOADS[workload], **self.less.get(workload, {})}


_DBOS: Mapping[str, Mapping[str, Any]] = {
    "W2": {"runs": 200},
    "W5": {"runs": 1_000},
    "W6": {"runs": 60},
    "W7": {"runs": 600},
    "W8": {"lengths": [100, 1_000], "history": 1_000},
}
_EDDA: Mapping[str, Mapping[str, Any]] = {
    "W1": {"steps": 500},
    "W2": {"runs": 50},
    "W4": {"runs": 20},
    "W5": {"runs": 100},
    "W6": {"runs": 1},
    "W7": {"runs": 100},
    "W8": {"lengths": [100, 500], "history": 500},
}

PARTICIPANTS: tuple[Participant, ...] = (
    Participant("stepwell-sqlite", "stepwell, SQLite", "stepwell", "sqlite", "stepwell"),
    Participant("stepwell-postgres", "stepwell, PostgreSQL", "stepwell", "postgres", "stepwell"),
    # No peer has a call that starts many runs, so these stand beside the comparison and not in it.
    Participant(
        "stepwell-bulk-sqlite",
        "stepwell, SQLite, start_many",
        "stepwell",
        "sqlite",
        "stepwell",
        less={"W2": {"bulk": True}},
        only=("W2",),
    ),
    Participant(
        "stepwell-bulk-postgres",
        "stepwell, PostgreSQL, start_many",
        "stepwell",
        "postgres",
        "stepwell",
        less={"W2": {"bulk": True}},
        only=("W2",),
    ),
    Participant(
        "dbos-sqlite",
        "DBOS, SQLite",
        "dbos",
        "sqlite",
        "dbos",
        "dbos",
        # Its own default looks for messages once a second.
        {**_DBOS, "W4": {"settings": {"notification_listener_polling_interval_sec": 0.01}}},
    ),
    Participant("dbos-postgres", "DBOS, PostgreSQL", "dbos", "postgres", "dbos", "dbos", _DBOS),
    Participant(
        "absurd",
        "Absurd, PostgreSQL",
        "absurd",
        "postgres",
        "absurd-sdk",
        "absurd",
        {
            "W2": {"runs": 500},
            "W5": {"runs": 1_000},
            "W6": {"runs": 200, "claim_timeout": 10},
            "W7": {"runs": 2_000, "poll": 0.25},
            "W8": {"lengths": [100, 1_000, 2_000], "history": 2_000},
        },
    ),
    Participant(
        "restate",
        "Restate",
        "restate",
        "restate",
        "restate-sdk",
        "restate",
        {
            "W7": {"runs": 5_000, "inactivity": 1, "settle": 3},
            # With a history of 2,000 its resuming did not end here.
            "W8": {"lengths": [100, 1_000, 2_000], "history": 1_000, "inactivity": 1, "settle": 3},
        },
    ),
    Participant(
        "temporal",
        "Temporal dev server",
        "temporal",
        "temporal",
        "temporalio",
        "temporal",
        {
            "W2": {"runs": 100},
            "W4": {"runs": 100},
            "W5": {"runs": 100},
            "W6": {"runs": 40},
            "W7": {"runs": 150},
            "W8": {"lengths": [100, 1_000], "history": 1_000},
        },
    ),
    Participant("edda-sqlite", "Edda, SQLite", "edda", "sqlite", "edda-framework", "edda", _EDDA),
    Participant("edda-postgres", "Edda, PostgreSQL", "edda", "postgres", "edda-framework", "edda", _EDDA),
)

RESTATE_SERVER = "@restatedev/restate-server@1.7.12"


def choose(words: str) -> list[Participant]:
    """Those whose name is, or begins with, one of the words; all if there is none.

    Raises ValueError for a word that is nobody's name.
    """
    chosen: set[str] = set()
    for word in filter(None, (one.strip().lower() for one in words.split(","))):
        found = [one.name for one in PARTICIPANTS if one.name == word or one.name.startswith(f"{word}-")]
        if not found:
            raise ValueError(f"nobody is called {word!r}; choose among {', '.join(one.name for one in PARTICIPANTS)}")
        chosen.update(found)
    return [one for one in PARTICIPANTS if not chosen or one.name in chosen]


def choose_workloads(words: str) -> list[str]:
    """As `choose`, for workloads."""
    named = [one.strip().upper() for one in words.split(",") if one.strip()]
    for one in named:
        if one not in WORKLOADS:
            raise ValueError(f"there is no workload {one!r}; choose among {', '.join(WORKLOADS)}")
    return [one for one in WORKLOADS if not named or one in named]


def in_turn(participants: list[Participant], number: int) -> list[Participant]:
    """Their order in a round: each round begins with the next of them."""
    first = (number - 1) % len(participants) if participants else 0
    return participants[first:] + participants[:first]
