"""The audit is compared with its hashes, line by line."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.clock import Instant
from stepwell.model.ledger import Act, Break, ChainHead, NewAct, Verified, appended, chain_of, verify


def written(count: int) -> tuple[ChainHead, list[Act]]:
    head, lines = ChainHead(), []
    for number in range(count):
        lines.append(appended(head, Instant(number), NewAct(f"q{number}", "ann", "start_run", "", "asked")))
        head = ChainHead(lines[-1].number, lines[-1].chain)
    return head, lines


@pytest.mark.parametrize("count", [0, 1, 5])
def test_lines_as_they_were_written_are_fine(count: int) -> None:
    assert verify(*written(count)) == Verified(count)


@pytest.mark.parametrize("field", [name for name in Act._fields if name not in ("number", "at")])
def test_a_line_that_was_changed_is_named(field: str) -> None:
    head, lines = written(5)
    other: dict[str, Any] = {field: "other"}
    lines[2] = lines[2]._replace(**other)

    assert verify(head, lines).breaks[0] == Break(3, "was changed, or the line before it was")


def test_a_line_that_was_written_anew_with_a_hash_of_its_own_is_found_by_the_next() -> None:
    head, lines = written(5)
    forged = lines[2]._replace(who="bob")
    lines[2] = forged._replace(chain=chain_of(lines[1].chain, forged))

    assert verify(head, lines).breaks == (Break(4, "was changed, or the line before it was"),)


def test_a_forged_last_line_is_not_the_one_that_was_written() -> None:
    head, lines = written(5)
    forged = lines[4]._replace(who="bob")
    lines[4] = forged._replace(chain=chain_of(lines[3].chain, forged))

    assert verify(head, lines).breaks == (Break(5, "is not the line that was written"),)


@pytest.mark.parametrize(
    ("gone", "found"),
    [
        ({1}, Break(1, "is missing")),
        ({3}, Break(3, "is missing")),
        ({2, 3}, Break(2, "is missing, and so are all up to 3")),
        ({5}, Break(5, "is missing")),
        ({1, 2, 3, 4, 5}, Break(1, "is missing, and so are all up to 5")),
    ],
)
def test_lines_that_were_removed_are_missed(gone: set[int], found: Break) -> None:
    head, lines = written(5)

    assert verify(head, [line for line in lines if line.number not in gone]).breaks == (found,)


def test_a_line_that_the_store_did_not_write_is_found() -> None:
    head, lines = written(2)
    lines.append(appended(head, Instant(9), NewAct("q9", "bob", "start_run", "", "asked")))

    assert verify(head, lines).breaks == (Break(3, "was not added by the store"),)
