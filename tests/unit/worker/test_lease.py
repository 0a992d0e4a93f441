"""The local deadline of a lease."""

from __future__ import annotations

from stepwell.clock import Span
from stepwell.ids import Incarnation
from stepwell.virtual.clock import ManualClock
from stepwell.worker.lease import Lease


def test_a_lease_counts_from_before_it_was_asked_for() -> None:
    clock = ManualClock()
    lease = Lease(clock, Incarnation("i"), Span(10_000_000))
    assert not lease.is_live()

    requested = lease.before_request()
    clock.advance("5s")
    lease.granted(requested)

    clock.advance("3900ms")
    assert lease.is_live()
    clock.advance("200ms")
    assert not lease.is_live()


def test_a_late_answer_does_not_shorten_a_lease() -> None:
    clock = ManualClock()
    lease = Lease(clock, Incarnation("i"), Span(10_000_000))
    first = lease.before_request()
    clock.advance("3s")
    second = lease.before_request()

    lease.granted(second)
    lease.granted(first)
    clock.advance("8s")

    assert lease.is_live()


def test_a_wall_clock_that_is_set_back_changes_nothing() -> None:
    clock = ManualClock()
    lease = Lease(clock, Incarnation("i"), Span(10_000_000))
    lease.granted(lease.before_request())
    clock.jump_back("1h")
    clock.advance("10s")

    assert not lease.is_live()
