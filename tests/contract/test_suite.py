"""The public store suite itself."""

from __future__ import annotations

from collections import Counter

from stepwell.conformance.suite import StoreSuite


def test_no_test_of_the_suite_hides_another() -> None:
    parts = [part for part in StoreSuite.__mro__ if part.__module__.startswith("stepwell.conformance")]
    names = [name for part in parts for name in vars(part) if name.startswith("test_") or not name.startswith("_")]

    assert [name for name, times in Counter(names).items() if times > 1] == []
