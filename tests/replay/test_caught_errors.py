"""Caught failures: the author's type and attributes, equal live and replayed; and retries without a limit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import Context, Failure, JoinError, Retry, RunFailed, StepFailed, codec, step, workflow
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.errors import InvalidOptionError
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.test_steps import outcome

ONCE = Retry(max_attempts=1)


class CardDeclined(Exception):
    """An author's exception with attributes of its own."""

    def __init__(self, code: int, limits: dict[str, int]) -> None:
        super().__init__(f"declined {code}")
        self.code_number = code
        self.limits = limits
        self.at = datetime(2026, 1, 31, tzinfo=UTC)
        self.path = "of the author"
        self._private = "unseen"


class Quota(Exception):
    """An exception that the codec is told how to store."""

    def __init__(self, left: int, until: datetime) -> None:
        super().__init__(f"{left} left")
        self.left = left
        self.until = until


codec.register(
    Quota,
    encode=lambda error: [error.left, error.until],
    decode=lambda plain: Quota(plain[0], datetime.fromisoformat(plain[1])),
)


@step(retry=ONCE, raises=[CardDeclined, Quota])
async def charge(kind: str) -> None:
    raise CardDeclined(7, {"day": 100}) if kind == "card" else Quota(3, datetime(2026, 2, 1, tzinfo=UTC))


async def test_a_caught_failure_has_the_attributes_of_the_author(harness: Harness) -> None:
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found: list[Any] = []
        try:
            await ctx.step(charge, "card")
        except CardDeclined as error:
            found += [
                isinstance(error, StepFailed),
                error.code_number,
                error.limits,
                error.path,
                hasattr(error, "at"),
                error.data,  # type: ignore[attr-defined]  # of `StepFailed`, which it also is
            ]
        await ctx.receive("go")
        return found

    limits = {"day": 100}
    data = {"code_number": 7, "limits": limits, "at": "2026-01-31T00:00:00Z", "path": "of the author"}
    assert await outcome(harness, flow) == [True, 7, limits, "charge", False, data]


async def test_a_registered_exception_is_rebuilt_by_its_own_function(harness: Harness) -> None:
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found: list[Any] = []
        try:
            await ctx.step(charge, "quota")
        except Quota as error:
            found += [error.left, error.until.isoformat(), str(error)[:11]]
        await ctx.receive("go")
        return found

    found = await outcome(harness, flow)
    assert found[:2] == [3, "2026-02-01T00:00:00+00:00"]


async def test_the_failure_of_a_run_and_of_a_branch_carries_the_attributes(harness: Harness) -> None:
    @workflow
    async def flow(ctx: Context) -> None:
        async def broken(ctx: Context) -> None:
            raise CardDeclined(8, {})

        try:
            await ctx.join("both", {"a": broken})
        except JoinError as error:
            inner: Any = error.errors["a"]
            raise CardDeclined(inner.failure.data["code_number"] + 1, {}) from error

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    with pytest.raises(RunFailed) as failed:
        await harness.result(run)
    assert failed.value.failure is not None
    assert failed.value.failure.data["code_number"] == 9


async def test_the_data_of_a_planned_failure_is_as_it_was(harness: Harness) -> None:
    async def refuse() -> None:
        raise Failure("out of stock", {"left": 0})

    @workflow
    async def flow(ctx: Context) -> Any:
        try:
            await ctx.step("refuse", refuse)
        except StepFailed as error:
            return error.data

    assert await outcome(harness, flow) == {"left": 0}


async def test_an_attribute_that_cannot_be_stored_is_left_out(harness: Harness) -> None:
    class Odd(Exception):
        def __init__(self) -> None:
            super().__init__("odd")
            self.lock = object()
            self.big = "x" * 10_000
            self.fine = 1

    async def fail() -> None:
        raise Odd

    @workflow
    async def flow(ctx: Context) -> Any:
        try:
            await ctx.step(step(fail, retry=ONCE))
        except StepFailed as error:
            return error.data

    assert await outcome(harness, flow) in (None, {"fine": 1})


def test_with_encryption_only_registered_exceptions_are_stored_with_their_attributes() -> None:
    from stepwell.codec.base import Place
    from stepwell.codec.error_fields import fields_of

    sealed = Encrypted(JsonCodec(), keys=Keys("k", {"k": bytes(range(32))}))
    place = Place("w", "p")

    assert fields_of(CardDeclined(1, {}), sealed, place).data == b"null"
    assert b"2026-02-01" in fields_of(Quota(3, datetime(2026, 2, 1, tzinfo=UTC)), sealed, place).data


async def test_a_step_is_retried_without_a_limit(harness: Harness, ledger: Ledger) -> None:
    body = step(
        ledger.failing("load", 120, value="done"), name="load", retry=Retry(max_attempts=None, initial="1h", factor=1)
    )

    @workflow
    async def flow(ctx: Context) -> str:
        return str(await ctx.step(body))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2d")
    worker = await harness.takeover(worker, flow)
    await harness.advance("30d")

    assert await harness.result(run) == "done"
    assert ledger.lines.count("load") == 121
    [entry] = await worker.engine.runs.history(run.run_id)
    assert entry.attempts == 121
    assert len(entry.failed_attempts) == 100


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "3"])
def test_a_count_of_attempts_is_a_whole_number_or_none(wrong: Any) -> None:
    with pytest.raises(InvalidOptionError, match="max_attempts is") as refused:
        Retry(max_attempts=wrong)
    assert "max_attempts=None" in refused.value.fix
