"""Parts of the campaigns that every run of the tests takes on, each in a process of its own.

`python -m tests.faults.parts sabotage 0 4` is the first quarter of the switches, `... sweep 0 4` that of the golden
programs, `... cases 0 4` that of the cases, and `... regressions` the seeds that once failed. `... --write` finds the
seeds of the switches anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sim.__main__ import SEEDS_PER_SWITCH
from sim.cases.sweeps import CASES, sweep_cases
from sim.golden import golden_programs
from sim.runner import describe, prepare
from sim.sabotage.switches import POSTGRES, SWEPT, USUAL, catch, store_of
from sim.sweep import sweep_in_turn
from sim.world import simulate

# Events are sent for ever: it takes half a million calls to a server until the simulation gives up.
_ENDLESS = ("postgres-sent-and-still-owed",)
SWITCHES = (*USUAL, *(name for name in POSTGRES if name not in _ENDLESS))

_HERE = Path(__file__).parent
_REGRESSIONS = _HERE / "regression_seeds.txt"
_SEEDS = _HERE / "sabotage_seeds.txt"
_STORE, _MODE = "sqlite", "live"


def share(part: int, parts: int) -> list[str]:
    """The switches of one part. Those that are caught with the same seed are together: the whole engine is then
    simulated once for all of them.
    """
    known = dict(_lines(_SEEDS))
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in SWITCHES:
        place = (name,) if name in SWEPT or name not in known else (store_of(name), known[name])
        groups.setdefault(place, []).append(name)
    return [name for group in list(groups.values())[part::parts] for name in group]


def sabotage(part: int, parts: int) -> int:
    """Catch the switches of one part; how many were not."""
    missed = 0
    for name in share(part, parts):
        seed = _find_seed(name)
        missed += seed is None
        print(f"{name} {'NOT CAUGHT' if seed is None else 'caught'}")
    return missed


def _find_seed(name: str) -> int | None:
    """The known one, if it still catches the switch; as the engine grows, another one may have to be looked for."""
    known = dict(_lines(_SEEDS)).get(name)
    if known is not None and catch(name, 1, int(known)) is not None:
        return int(known)
    found = catch(name, SEEDS_PER_SWITCH)
    return None if found is None else found[0]


def sweep_programs(part: int, parts: int) -> int:
    """Sweep the golden programs of one part; how many promises were broken."""
    prepare()
    broken = 0
    for number, name in list(enumerate(golden_programs()))[part::parts]:
        for what, report in sweep_in_turn(name, _STORE, _MODE, number):
            broken += bool(report.violations)
            for violation in report.violations[:1]:
                print(f"{violation.invariant} violated ({_STORE}, {_MODE}) by {what}: {violation.text}")
        print(f"{name} swept")
    return broken


def try_cases(part: int, parts: int) -> int:
    """Try the cases of one part in every way; how many promises were broken."""
    prepare()
    broken = 0
    for name in list(CASES)[part::parts]:
        for what, report in sweep_cases([name]):
            broken += bool(report.violations)
            for violation in report.violations:
                print(f"violated by {what}: {violation.text}")
        print(f"{name} tried")
    return broken


def repeat_regressions() -> int:
    """Simulate the seeds that once failed; how many do again."""
    prepare()
    failed = 0
    for seed, store, mode in _lines(_REGRESSIONS):
        report = simulate(int(seed), store, mode)
        failed += bool(report.violations or report.unfinished)
        for line in describe(report) if report.violations else ():
            print(line)
        print(f"{seed} {store} {mode} repeated")
    return failed


def write_seeds() -> int:
    """Find a seed for every switch, and keep it; how many switches have none."""
    first, *_ = _SEEDS.read_text(encoding="utf-8").splitlines()
    found = {name: _find_seed(name) for name in SWITCHES}
    lines = [f"{name} {seed}" for name, seed in found.items() if seed is not None]
    _SEEDS.write_text("\n".join([first, *lines, ""]), encoding="utf-8")
    return len(found) - len(lines)


def count_regressions() -> int:
    """How many seeds once failed."""
    return len(_lines(_REGRESSIONS))


def _lines(file: Path) -> list[list[str]]:
    lines = (line.partition("#")[0].split() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def main(words: list[str]) -> int:
    """Do what is asked for; 1 if not all is well."""
    match words:
        case ["sabotage", part, parts]:
            bad = sabotage(int(part), int(parts))
        case ["sweep", part, parts]:
            bad = sweep_programs(int(part), int(parts))
        case ["cases", part, parts]:
            bad = try_cases(int(part), int(parts))
        case ["regressions"]:
            bad = repeat_regressions()
        case ["--write"]:
            bad = write_seeds()
        case _:
            raise SystemExit(__doc__)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
