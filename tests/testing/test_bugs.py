"""A sweep finds each planted bug, and finds nothing in its correct twin."""

from __future__ import annotations

import pytest

from stepwell.testing import CrashFound, Kit
from tests.testing.bugs import BUGS, WORLD, Bug


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_planted_bug_is_found(stepwell: Kit, bug: Bug):
    with pytest.raises(CrashFound) as caught:
        await stepwell.crash_everywhere(bug.wrong, before_each=WORLD.clear, **bug.options)
    assert bug.says in str(caught.value)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_nothing_is_found_in_the_correct_twin(stepwell: Kit, bug: Bug):
    report = await stepwell.crash_everywhere(bug.right, before_each=WORLD.clear, **bug.options)

    assert report.ok == report.points >= 3


def test_there_are_ten_and_more():
    assert len(BUGS) >= 10
