"""Hints travel between processes; without them nothing is lost but time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.records import new_change, new_record
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.ids import RunId
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.wakeups import _encode_messages
from tests.servers.cleared import cleared_url


@pytest.fixture
def url() -> str:
    return cleared_url()


async def _open(url: str) -> PostgresStore:
    store = PostgresStore(system_environment(), url)
    await store.open()
    return store


@pytest_asyncio.fixture
async def here(url: str) -> AsyncIterator[PostgresStore]:
    store = await _open(url)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def there(url: str) -> AsyncIterator[PostgresStore]:
    store = await _open(url)
    yield store
    await store.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  whatever the condition looks at has no event
            await asyncio.sleep(0.005)


async def _heard_by(store: PostgresStore) -> list[Hint]:
    heard: list[Hint] = []
    store.wakeups.listen(heard.append)
    await until(lambda: store.wakeups.is_listening)
    heard.clear()
    return heard


async def test_another_process_hears_of_a_due_time(here: PostgresStore, there: PostgresStore) -> None:
    heard = await _heard_by(there)

    await here.records.change([new_change("c1", new_record("t1", due_at=Instant(5)))])

    await until(lambda: Hint(HintKind.DUE) in heard)


async def test_another_process_hears_of_a_start_and_of_an_end(here: PostgresStore, there: PostgresStore) -> None:
    heard = await _heard_by(there)

    await here.runs.create([new_run("r1")])
    await until(lambda: any(hint.kind is HintKind.READY for hint in heard))
    await here.runs.cancel(RunId("r1"), compensate=False, reason="")

    await until(lambda: Hint(HintKind.ENDED, (RunId("r1"),)) in heard)


async def test_a_process_does_not_get_its_own_notifications(here: PostgresStore, there: PostgresStore) -> None:
    mine, others = await _heard_by(here), await _heard_by(there)

    count = 0
    async with asyncio.timeout(20):
        while not others:  # one process may not have heard yet that the other listens
            count += 1
            await here.runs.create([new_run(f"r{count}")])
            await asyncio.sleep(0.005)

    assert [hint.kind for hint in mine] == [HintKind.READY] * count


async def test_what_is_told_last_is_told_before_the_process_leaves(url: str, there: PostgresStore) -> None:
    heard = await _heard_by(there)
    brief = await _open(url)

    await brief.runs.create([new_run("r1")])
    await brief.close()

    await until(lambda: any(hint.kind is HintKind.READY for hint in heard))


async def test_a_listener_that_dies_is_noticed_counted_and_replaced(
    here: PostgresStore, there: PostgresStore, url: str
) -> None:
    heard = await _heard_by(there)

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query ilike 'notify%'"
        )
    await until(lambda: there.wakeups.losses == 1)
    await until(lambda: there.wakeups.is_listening)

    assert Hint(HintKind.CHANGED) in heard  # what was told meanwhile is looked for
    heard.clear()
    await here.runs.create([new_run("r1")])
    await until(lambda: any(hint.kind is HintKind.READY for hint in heard))


async def test_an_attempt_that_succeeds_sets_the_pause_between_attempts_back(there: PostgresStore, url: str) -> None:
    await _heard_by(there)
    first = there.wakeups.retry_seconds

    for _ in range(3):
        losses = there.wakeups.losses
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and query ilike 'notify%'"
            )
        while there.wakeups.losses == losses:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.005)
        await until(lambda: there.wakeups.is_listening)
        assert there.wakeups.retry_seconds == first


async def test_words_that_are_not_ours_only_make_one_look(there: PostgresStore, url: str) -> None:
    heard = await _heard_by(there)

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_notify('stepwell', 'hello')")

    await until(lambda: Hint(HintKind.CHANGED) in heard)


def test_no_message_is_too_long_for_the_server() -> None:
    runs = {RunId(f"018bcfe5-6847-757f-9504-{n:012}"): None for n in range(1_000)}
    long = {RunId("r" * 9_000): None}

    messages = list(_encode_messages("me", {HintKind.ENDED: runs, HintKind.READY: runs, HintKind.MAIL: long}))

    assert max(map(len, messages)) < 8_000
    assert b"".join(messages).count(b"018bcfe5") == 1_000
