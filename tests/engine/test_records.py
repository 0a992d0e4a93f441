"""Records with their meaning: changes that others make stale, limits, pages, and what encryption binds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepwell import Engine
from stepwell.clock import DAY, Instant, Span, to_datetime
from stepwell.codec import Encrypted, FolderBlobs, JsonCodec, Keys, Offloaded
from stepwell.engine.records import Document, Draft, NewLine, RecordKind, Records, check_labels, due_at, kind_of
from stepwell.errors import (
    InvalidMoveError,
    InvalidOptionError,
    NotFoundError,
    PayloadTooLargeError,
    StepwellError,
    StoreUnavailableError,
)
from stepwell.model.records import DUE_MAX, NewRecord, NewRecordEvent, RecordChange
from stepwell.model.states import SavedViewState, TriggerState
from tests.cases.harness import Harness


class Note(msgspec.Struct, frozen=True):
    """A body."""

    text: str
    count: int = 0


def drafts(text: str, *labels: str, **how: Any) -> Any:
    """A decision that does not depend on what there is."""
    draft = Draft(state=SavedViewState.SAVED, body=Note(text), lines=(NewLine("saved"),), labels=labels, **how)
    return lambda _: draft


def counted(it: Document[Note] | None) -> Draft[Note]:
    """One more than before."""
    count = 1 if it is None else it.body.count + 1
    return Draft(state=SavedViewState.SAVED, body=Note("n", count), lines=(NewLine("counted", "ann", {"to": count}),))


async def test_changes_of_many_at_once_are_all_made_each_from_the_latest_version() -> None:
    async with Engine("memory:") as engine:
        records = Records(engine._backend, RecordKind.VIEW, Note)

        assert all(await asyncio.gather(*(records.change("n", counted) for _ in range(12))))

        assert (await records.get("n")).body == Note("n", 12)
        lines = await records.history("n")
        assert [(line.number, line.by, line.verb, line.data) for line in lines] == [
            (number, "ann", "counted", {"to": number}) for number in range(12, 0, -1)
        ]
        assert [line.number for line in await records.history("n", limit=2, before=4)] == [3, 2]
        assert not await records.change("n", lambda _: None)


async def test_a_change_whose_answer_is_lost_happens_once(harness: Harness):
    client = await harness.client()
    records, lost = Records(client.engine._backend, RecordKind.VIEW, Note), list[str]()

    async def lose(name: str) -> None:
        if name == "records.change" and len(lost) < 3:
            lost.append(name)
            raise StoreUnavailableError("the answer was lost on its way")

    client.wire.after = lose
    assert await client.do(records.change("n", counted))
    assert (len(lost), (await client.do(records.get("n"))).body.count) == (3, 1)


async def test_a_state_is_reached_only_by_its_moves() -> None:
    async with Engine("memory:") as engine:
        triggers = Records(engine._backend, RecordKind.TRIGGER, Note)

        def become(state: TriggerState) -> Any:
            return lambda _: Draft(state=state, body=Note(""), lines=(NewLine(state),))

        with pytest.raises(InvalidMoveError, match="does not exist yet and cannot become paused"):
            await triggers.change("t", become(TriggerState.PAUSED))
        for state in (TriggerState.ACTIVE, TriggerState.ACTIVE, TriggerState.PAUSED, TriggerState.DELETED):
            assert await triggers.change("t", become(state))
        with pytest.raises(InvalidMoveError, match="is deleted and cannot become undeclared"):
            await triggers.change("t", become(TriggerState.UNDECLARED))
        with pytest.raises(NotFoundError, match="no trigger 't'"):
            await triggers.get("t")
        assert (await triggers.list(), await triggers.count(limit=9)) == ([], 0)


async def test_a_listing_has_pages_labels_and_states() -> None:
    async with Engine("memory:") as engine:
        records = Records(engine._backend, RecordKind.VIEW, Note)
        for number in range(5):
            await records.change(f"n{number}", drafts(str(number), "all", f"odd {number % 2}"))

        first = await records.list(limit=2, labels=["all"])
        second = await records.list(limit=9, labels=["all"], after=first[-1].record.record_id)
        assert [one.body.text for one in (*first, *second)] == ["4", "3", "2", "1", "0"]
        assert [one.body.text for one in await records.list(labels=["odd 1", "all"])] == ["3", "1"]
        assert await records.list(labels=["other"]) == await records.list(after="nobody") == []
        assert await records.count(labels=["odd 0"], limit=2) == 2
        with pytest.raises(NotFoundError, match="Did you mean"):
            await records.get("n")


WHEN = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: kind_of("triger"),
        lambda: due_at(WHEN.replace(tzinfo=None), Instant(0)),
        lambda: due_at(datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), Instant(0)),
        lambda: due_at(Span(DUE_MAX), Instant(1)),
        lambda: check_labels(["x" * 201], RecordKind.VIEW),
        lambda: check_labels([""], RecordKind.VIEW),
        lambda: check_labels([str(number) for number in range(65)], RecordKind.VIEW),
    ],
)
def test_what_cannot_be_stored_is_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidOptionError):
        wrong()


def test_a_due_time_in_the_past_means_now() -> None:
    now = Instant(1_800_000_000_000_000)
    assert due_at(WHEN, now) == now
    assert due_at(DAY, now) == now + DAY
    assert to_datetime(due_at(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), now)).year == 9999
    assert check_labels(["b", "a", "b"], RecordKind.VIEW) == ("a", "b")


@pytest.mark.parametrize("name", ["", "x" * 201, " a", "a\n", "-a", "a\x00", "\ud800", 7])
async def test_a_name_that_cannot_be_stored_or_typed_is_rejected(name: Any) -> None:
    async with Engine("memory:") as engine:
        with pytest.raises(InvalidOptionError):
            await Records(engine._backend, RecordKind.VIEW, Note).change(name, counted)


async def test_a_large_body_is_kept_apart_and_one_above_the_limit_is_refused(harness: Harness, tmp_path: Path):
    apart = Offloaded(JsonCodec(), FolderBlobs(tmp_path / "blobs"), above=1_000)
    client, small = await harness.worker(codec=apart), await harness.worker(codec=JsonCodec(payload_bytes_max=1_000))
    records = Records(client.engine._backend, RecordKind.VIEW, Note)
    large = Draft(state=SavedViewState.SAVED, body=Note("x" * 9_000), lines=(NewLine("saved", data=["y" * 9_000]),))

    assert await client.do(records.change("n", lambda _: large))
    found = await client.do(records.get("n"))
    assert (found.body, len(found.record.body) < 100) == (large.body, True)
    assert [line.data for line in await client.do(records.history("n"))] == [["y" * 9_000]]
    with pytest.raises(PayloadTooLargeError) as caught:
        await small.do(Records(small.engine._backend, RecordKind.VIEW, Note).change("m", lambda _: large))
    assert "the body of `view m` is too large" in caught.value.title
    assert await client.do(records.find("m")) is None


async def test_an_encrypted_body_can_be_read_in_its_own_record_only() -> None:
    codec = Encrypted(JsonCodec(), keys=Keys("k1", {"k1": bytes(32)}))
    async with Engine("memory:", codec=codec) as engine:
        records, store = Records(engine._backend, RecordKind.VIEW, Note), engine._backend.store
        await records.change("mine", drafts("canary"))
        stored = (await records.get("mine")).record
        assert b"canary" not in stored.body

        for kind, name in [("view", "other"), ("trigger", "mine")]:
            stolen = NewRecord(kind, name, "saved", stored.body)
            await store.records.change([RecordChange(name + kind, 0, stolen, (NewRecordEvent("x", data=stored.body),))])
        found = {one.record.record_id: one for one in await records.list()}

        assert found["mine"].body == Note("canary")
        assert (found["other"].content, found["other"].record.state) == (None, "saved")
        with pytest.raises(StepwellError, match="cannot be read"):
            found["other"].body
        with pytest.raises(StepwellError, match="cannot be read"):
            (await Records(engine._backend, RecordKind.TRIGGER, Note).get("mine")).body
        [line] = await records.history("other")
        assert "unreadable" in line.data
