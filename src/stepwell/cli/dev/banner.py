"""The first lines of `stepwell dev`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from stepwell.cli.texts import duration


def banner(facts: dict[str, Any], *, has_keys: bool) -> Iterator[str]:
    """What is running, and what to do first."""
    skipped = facts["skipped_seconds"]
    clock = f"clock: {duration(skipped)} ahead" if skipped else "clock: real"
    yield f"stepwell {version('stepwell')} · {facts['app']} · {facts['db']} (kept between runs) · {clock}"
    yield ""
    if facts["joins"]:
        other = " at ".join(part for part in (facts["joins"].get("worker"), facts["joins"].get("url")) if part)
        yield f"  Joined      {other or 'another'} has this database open; this one adds a worker"
    if facts["url"] is None:
        yield '  Dashboard   not installed: pip install "stepwell[server]"'
    else:
        is_moved = urlsplit(facts["url"]).port != facts["port_asked"]
        opened = "opened in your browser; --no-open to stop that" if facts["is_opened"] else "o opens it"
        notes = [f"port {facts['port_asked']} is taken"] * is_moved + [opened] * has_keys
        yield f"  Dashboard   {facts['url']}" + (f"  ({'; '.join(notes)})" if notes else "")
        yield f"  API         {facts['url']}/api/"
    yield f"  Workflows   {' · '.join(facts['workflows']) or 'none'}"
    yield (
        f"  Worker      {facts['worker']} · pid {facts['pid']}" if facts["pid"] else f"  Worker      {facts['worker']}"
    )
    names = facts["unfinished"]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"  Unfinished  {', '.join(names[-3:])}{more}: {'it continues' if len(names) == 1 else 'they continue'}"
    yield ""
    if facts["sample"]:
        yield f"  Try:  {facts['sample']}"
    if has_keys:
        yield "        press c to crash the worker, r to restart it, t to skip time, ? for all keys, q to quit"
    else:
        yield "        Ctrl-C stops"
    yield ""
