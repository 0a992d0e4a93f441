"""What processes have used so far: seconds of CPU, and memory that is theirs alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """Of some processes and all their children; only differences mean anything."""

    cpu: float
    memory: int

    def since(self, before: Usage) -> Usage:
        """What was added between two moments."""
        return Usage(self.cpu - before.cpu, self.memory - before.memory)


def usage(pids: list[int]) -> Usage:
    """Of these processes, with what their ended children had used."""
    cpu, memory = 0.0, 0
    for pid in pids:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            try:
                times = process.cpu_times()
                cpu += times.user + times.system
                if process.pid == pid:
                    cpu += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
                memory += own_bytes(process)
            except psutil.Error:
                continue  # it ended between two looks
    return Usage(cpu, memory)


def own_bytes(process: psutil.Process) -> int:
    """Pages of files that are mapped are not counted, where the system tells them apart."""
    try:
        for line in Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(process.memory_info().rss)
