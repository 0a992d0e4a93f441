"""Many random stories through the public API and through the model: `python -m tests.model --examples 2000`."""

from __future__ import annotations

import argparse
import sys
import time

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import DeskMachine
from tools.results import Result, Trial, keep

STEPS = 50


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, tell the stories, and say how it went."""
    parser = argparse.ArgumentParser(prog="model", description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    chosen = settings(max_examples=options.examples, stateful_step_count=STEPS, deadline=None, print_blob=True)
    try:
        run_state_machine_as_test(DeskMachine, settings=chosen)
        differences = 0
    except AssertionError as error:
        print(error, *getattr(error, "__notes__", ()), sep="\n")
        differences = 1
    counts, seconds = DeskMachine.counts, time.monotonic() - began
    print(*(f"  {name:<16}{count:>10,}" for name, count in counts.items()), sep="\n")
    print(f"{differences} DIFFERENCES" if differences else "the engine and the model agree", f"({seconds:.0f} s)")
    if options.record:
        trial = Trial(
            "random calls of the public API, against a model",
            counts["stories"],
            counts["calls"],
            lost=differences,
            doubled=differences,
            stuck=None,
        )
        keep(Result("model", f"make model EXAMPLES={options.examples}", seconds, (trial,)))
    return differences


if __name__ == "__main__":
    sys.exit(main())
