"""The power fails under SQLite: what was acknowledged is there. The whole campaign is `make power`."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.disk import Change, Cut, images

ROOT = Path(__file__).resolve().parents[2]


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one; its disk is the default of a whole process."""
    command = [sys.executable, "-m", "tests.system.power", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.timeout(300)
def test_nothing_that_was_acknowledged_is_lost_when_the_power_fails() -> None:
    done = campaign("--cuts", "60", "--seconds", "1.5")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "all promises held" in done.stdout


@pytest.mark.timeout(300)
def test_a_database_that_does_not_sync_loses_what_it_acknowledged_and_that_is_found() -> None:
    done = campaign("--cuts", "60", "--seconds", "1.5", "--synchronous", "NORMAL")

    assert done.returncode == 1, done.stdout + done.stderr
    losses = ("was acknowledged, and it does not exist", "consumed 0 times, pending 0 times")
    assert any(loss in done.stdout for loss in losses), done.stdout


def test_what_was_synced_is_kept_and_the_rest_is_kept_lost_or_torn() -> None:
    changes = [
        Change("a", "write", 0, b"1" * 1024),
        Change("a", "sync"),
        Change("a", "write", 0, b"2" * 1024),
        Change("b", "write", 4, b"3"),
    ]
    kept = [Cut(2, 0.0, False), Cut(4, 0.0, False), Cut(4, 1.0, False)]
    found = {cut: image for cut, image in images(changes, kept, random.Random(1))}

    assert found[kept[0]] == found[kept[1]] == {"a": b"1" * 1024}
    assert found[kept[2]] == {"a": b"2" * 1024, "b": bytes(4) + b"3"}

    torn = {image["a"] for _, image in images(changes, [Cut(4, 0.5, True)] * 50, random.Random(1))}
    assert torn == {first * 512 + second * 512 for first in (b"1", b"2") for second in (b"1", b"2")}


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_deleted_file_may_come_back_until_its_folder_is_synced(is_synced: bool) -> None:
    changes = [Change("a", "write", 0, b"1"), Change("a", "sync"), Change("a", "delete")]
    changes += [Change("", "sync folder")] * is_synced
    [(_, image)] = images(changes, [Cut(len(changes), 0.0, False)], random.Random(1))

    assert image == ({} if is_synced else {"a": b"1"})
