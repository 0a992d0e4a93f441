"""Stores with different numbering are compared, and addressed, by rank."""

from __future__ import annotations

import random
from typing import Any

from stepwell.clock import Instant
from stepwell.conformance.scene import FIRST, Scene, place, wait_topic
from stepwell.conformance.snapshot import snapshot
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import EventId, Incarnation, RunId, SystemIds
from stepwell.model.commits import Commit
from stepwell.model.events import IncomingEvent
from stepwell.model.outbox import Emit, Owed, Settled, Unsent
from stepwell.model.runs import ChildOutcome, Inbox
from stepwell.model.signals import Question, Redelivery, Refusal, Reply, ReplyStatus, Signal
from stepwell.model.states import RunStatus
from stepwell.model.workers import Fence, Renewed
from stepwell.stores.base.views import HeldSignal
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock
from tests.differential.numbers import Numbers, Ranks

NOW = Instant(5)
NUMBERED = """
create temp trigger signals_from_101 after insert on stepwell_signals when new.number = 1 begin
    update stepwell_signals set number = 101 where number = 1;
end;
update stepwell_meta set value = 200 where name = 'receipts';
insert into sqlite_sequence (name, seq) values ('stepwell_outbox', 300);
"""


def signal(number: int) -> Signal:
    return Signal(number, "go", b"", NOW)


def event(number: int) -> IncomingEvent:
    return IncomingEvent(number, EventId("e"), "news", b"", (), NOW, ())


def owed(number: int) -> Owed:
    return Owed(number, "s", EventId("e"), "paid", "", b"", NOW, RunId("r"), "flow", None)


def seen(*values: Any) -> Numbers:
    numbers = Numbers()
    numbers.see(values)
    return numbers


def test_ranks_count_what_was_ever_shown_in_its_order() -> None:
    ranks = Ranks()
    ranks.see([7, 3, 7])
    ranks.see([12])

    assert [ranks.rank(number) for number in (3, 7, 12)] == [1, 2, 3]
    assert [ranks.number(rank) for rank in (1, 2, 3)] == [3, 7, 12]


def test_a_number_that_shows_late_takes_its_place_in_the_order() -> None:
    ranks = Ranks()
    ranks.see([7, 12])
    ranks.see([3])

    assert [ranks.rank(number) for number in (3, 7, 12)] == [1, 2, 3]


def test_a_rank_that_does_not_exist_is_a_number_that_nothing_has() -> None:
    ranks = Ranks()
    ranks.see([7, 12])

    assert ranks.number(3) > 12
    assert ranks.number(3) != ranks.number(4)
    assert (ranks.number(0), ranks.rank(0)) == (0, 0)


def test_numbers_are_their_own_ranks_only_without_a_gap() -> None:
    assert seen(signal(1), signal(2), owed(1)).is_plain
    assert not seen(signal(1), signal(3)).is_plain
    assert not seen(signal(1), owed(2)).is_plain


def test_two_stores_are_equal_even_if_one_leaves_gaps() -> None:
    dense = {"runs": {"r": {"signals": (signal(1), signal(2)), "events": (event(1),)}}, "owed": [owed(1), owed(2)]}
    gaps = {"runs": {"r": {"signals": (signal(4), signal(9)), "events": (event(6),)}}, "owed": [owed(2), owed(7)]}

    assert dense != gaps
    assert seen(dense).to_ranks(dense) == seen(gaps).to_ranks(gaps) == dense


def test_what_two_stores_show_differs_if_the_order_does() -> None:
    first, second = [signal(1), signal(2)], [signal(9), signal(4)]

    assert seen(first).to_ranks(first) != seen(second).to_ranks(second)


def test_a_number_that_is_assigned_twice_is_a_difference() -> None:
    once, twice = seen(owed(1)), seen(owed(1))
    once.see(owed(2))
    twice.see(owed(1))

    assert once.to_ranks(owed(2)) != twice.to_ranks(owed(1))


def test_kinds_are_numbered_separately() -> None:
    numbers = seen(signal(5), event(6), owed(7))

    assert numbers.to_ranks([signal(5), event(6), owed(7)]) == [signal(1), event(1), owed(1)]


def test_a_reply_is_known_by_the_rank_of_its_signal() -> None:
    question = Question(RunId("r"), RunStatus.RUNNING, True, Reply(9, ReplyStatus.GIVEN, b"y"))

    answer = seen(signal(4), signal(9)).to_ranks(question)

    assert answer == question._replace(reply=Reply(2, ReplyStatus.GIVEN, b"y"))


def test_requests_to_a_store_have_its_own_numbers() -> None:
    numbers = seen(signal(4), signal(9), event(6), owed(2), owed(7))
    told = Commit(
        RunId("r"),
        Fence(Incarnation("w"), 1),
        1,
        consumed=(1,),
        refused=(Refusal(2, "no"),),
        replies=(Reply(2, ReplyStatus.GIVEN, b""),),
        received=(1,),
    )

    assert numbers.to_own(told) == told._replace(
        consumed=(4,), refused=(Refusal(9, "no"),), replies=(Reply(9, ReplyStatus.GIVEN, b""),), received=(6,)
    )
    assert numbers.to_own([Redelivery(2, "k", b"")]) == [Redelivery(9, "k", b"")]
    assert numbers.to_own(Settled(1, (1,), Unsent(2, "no", None))) == Settled(2, (2,), Unsent(7, "no", None))
    assert numbers.own("outbox", 2) == 7
    assert numbers.to_ranks(numbers.to_own(told)) == told


def test_lists_without_a_promised_order_are_sorted() -> None:
    children = [ChildOutcome(place(n), RunId(f"c{n}"), RunStatus.COMPLETED, None, None) for n in (2, 1)]

    assert Numbers().to_ranks(Inbox(children=tuple(children))).children == tuple(reversed(children))
    assert Numbers().to_ranks(Renewed(NOW, (RunId("b"), RunId("a")))).cancelling == ("a", "b")


async def test_every_number_of_a_snapshot_is_found() -> None:
    clock = ManualClock()
    runner = InlineRunner(SqliteDatabase(":memory:"))
    environment = Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor())
    store = SqliteStore(environment, ":memory:", runner=runner)
    await store.open()
    runner.database.connection.execute(NUMBERED)
    scene = Scene(store, clock)
    await scene.register()
    await scene.waiting("r1", wait_topic())
    await scene.publish("e1")
    await scene.send("s1", "r1")
    await scene.send("s2", "r2", hold=True)
    turn = await scene.claim_only("r1")
    await scene.send("s3", "r1")
    emit = Emit(EventId("x"), "paid", "", b"", NOW, ("s", "t"))
    await turn.commit(refused=(Refusal(103, "no"),), emits=(emit,), waits=(wait_topic(at=FIRST),))
    whole = await snapshot(store)

    numbers = seen(whole)

    assert (numbers.own("signal", 1), numbers.own("event", 1), numbers.own("outbox", 1)) == (101, 201, 301)
    ranked = numbers.to_ranks(whole)
    assert [one.number for one in ranked["runs"]["r1"]["signals"]] == [1]
    assert [one.number for one in ranked["runs"]["r1"]["events"]] == [1]
    assert [held.signal.number for held in ranked["held"]] == [2]
    assert [unread.signal.number for unread in ranked["unread"]] == [3]
    assert [one.number for one in ranked["owed"]] == [1, 2]
    assert isinstance(ranked["held"][0], HeldSignal)
