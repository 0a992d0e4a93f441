"""`StepContext`: what a step body may know about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepContext:
    """Given to a body whose first parameter is annotated with it.

    `idempotency_key` is the same for every attempt at this step of this run and for nothing else: hand it to a
    payment provider,
    and the effect happens once however often the body runs.
    """

    run_id: str
    workflow: str
    path: str
    attempt: int
    is_final_attempt: bool
    idempotency_key: str
