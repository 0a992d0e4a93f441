"""What a storm is told to do."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Mapping

from tests.servers.binaries import VERSIONS

STORES = ("sqlite", "postgres")
ACTS = ("kill", "stop", "term", "server kill", "promotion")

_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "sqlite": {"kills": 100, "stops": 10, "terms": 10, "server_kills": 0, "promotions": 0, "workers": 3, "active": 40},
    "postgres": {
        "kills": 300,
        "stops": 50,
        "terms": 10,
        "server_kills": 20,
        "promotions": 5,
        "workers": 4,
        "active": 24,
    },
}
_SECONDS_PER_KILL: Mapping[str, float] = {"sqlite": 0.75, "postgres": 1.0}


def read_options(description: str | None, arguments: list[str] | None) -> list[argparse.Namespace]:
    """The options of one storm per store, in the order in which they are to be run."""
    parser = argparse.ArgumentParser(prog="storm", description=description)
    parser.add_argument("--store", choices=STORES, help="both, one after the other, if it is left out")
    for name, what in {
        "--kills": "SIGKILL of workers",
        "--stops": "SIGSTOP of workers, longer than the lease, + SIGCONT",
        "--terms": "SIGTERM of workers",
        "--server-kills": "SIGKILL of the database server, which is started again",
        "--promotions": "SIGKILL of the database server, whose standby takes over",
    }.items():
        counts = ", ".join(f"{_DEFAULTS[store][name.strip('-').replace('-', '_')]} on {store}" for store in STORES)
        parser.add_argument(name, type=int, help=f"how many {what}; {counts}")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--version", type=int, choices=VERSIONS, default=VERSIONS[0], help="of PostgreSQL")
    parser.add_argument("--seconds", type=float, help="how long the faults are spread over")
    parser.add_argument("--seconds-max", type=float, default=1_200.0, help="a storm that lasts longer has failed")
    parser.add_argument("--seed", type=int, help="of the faults and the load; the machine's own timing is not in it")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--active", type=int, help="runs that the client keeps under way")
    parser.add_argument("--settle", type=float, default=60.0, help="within how many seconds all must end afterwards")
    parser.add_argument("--takeover", type=float, help="p99 allowed, in seconds; lease + 2 s + this machine's own lag")
    parser.add_argument("--keep", help="a new folder to leave everything in")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    given = parser.parse_args(arguments)
    if given.store == "sqlite" and (given.server_kills or given.promotions):
        parser.error("a SQLite file has no server to kill")
    return [_complete(given, store) for store in ([given.store] if given.store else STORES)]


def _complete(given: argparse.Namespace, store: str) -> argparse.Namespace:
    options = argparse.Namespace(**vars(given))
    options.store = store
    for name, value in _DEFAULTS[store].items():
        # Of both storms, the one without a server does without what is only asked of servers.
        if getattr(options, name) is None or (value == 0 and store == "sqlite"):
            setattr(options, name, value)
    if options.seed is None:
        options.seed = secrets.randbelow(1_000_000)
    if options.seconds is None:
        options.seconds = options.kills * _SECONDS_PER_KILL[store]
    return options
