"""Fuzz every decoder, guided by coverage: `python -m tests.fuzz --seconds 60` for each, or `--decoder NAME` for one.

Each runs in a process of its own, because a fuzzer ends its process. Exit code 1: one of them did something that it
must not do, and the input is printed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tools.progress import Bar
from tools.results import Result, Trial, keep

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES_MAX = 512  # of the whole process; a decoder that makes much of little is found by this
_DONE = re.compile(r"^#(\d+)\s+DONE\s+cov: (\d+)", re.MULTILINE)


class Fuzzed(NamedTuple):
    """What came of one decoder."""

    name: str
    inputs: int
    covered: int  # edges of the code
    defect: str  # "" if there is none


def fuzz(name: str, seconds: int) -> Fuzzed:
    """Fuzz one decoder in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="stepwell-fuzz-") as folder:
        command = [sys.executable, "-m", "tests.fuzz.target", name, folder, str(seconds), str(MEGABYTES_MAX)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    found = _DONE.search(done.stderr)
    inputs, covered = (int(found[1]), int(found[2])) if found else (0, 0)
    is_fine = done.returncode == 0 and found is not None
    return Fuzzed(name, inputs, covered, "" if is_fine else done.stderr[-2_000:])


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, fuzz, and say how it went."""
    from tests.fuzz.decoders import DECODERS

    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each decoder")
    parser.add_argument("--decoder", choices=tuple(DECODERS), action="append", help="only this one; may be repeated")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    names = options.decoder or list(DECODERS)
    bar, began, all_fuzzed = Bar(len(names), "decoders"), time.monotonic(), list[Fuzzed]()
    for name in names:
        all_fuzzed.append(fuzz(name, options.seconds))
        bar.show(len(all_fuzzed), name)
    for each in all_fuzzed:
        verdict = "DEFECT" if each.defect else "fine"
        print(f"  {each.name:<20}{each.inputs:>12,} inputs  {each.covered:>6,} edges  {verdict}")
    broken = [each for each in all_fuzzed if each.defect]
    for each in broken:
        print(f"\n{each.name}:\n{each.defect}")
    print(f"{len(broken)} DEFECTS" if broken else "every input was read or refused")
    if options.record:
        keep(_result(all_fuzzed, options.seconds, time.monotonic() - began))
    return 1 if broken else 0


def _result(all_fuzzed: list[Fuzzed], per_decoder: int, seconds: float) -> Result:
    inputs, broken = sum(each.inputs for each in all_fuzzed), sum(bool(each.defect) for each in all_fuzzed)
    fault = f"generated input for {len(all_fuzzed)} decoders"
    trial = Trial(fault, inputs, None, lost=None, doubled=None, stuck=broken)
    figures = {each.name: f"{each.inputs:,} inputs, {each.covered:,} edges of code" for each in all_fuzzed}
    return Result("fuzz", f"make fuzz SECONDS_EACH={per_decoder}", seconds, (trial,), figures)


if __name__ == "__main__":
    sys.exit(main())
