"""Encryption, offloading, up-casters and secrets through the whole engine, on both stores and in both modes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stepwell import (
    Break,
    Context,
    Continue,
    Engine,
    Failure,
    Handle,
    Retry,
    RunFailed,
    RunPaused,
    signal,
    step,
    timer,
    workflow,
)
from stepwell.codec.base import Codec
from stepwell.codec.blobs import FolderBlobs
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.codec.secret import Secret
from stepwell.errors import CorruptRecordError, UnserialisableError
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES

CANARY = "kanarienvogel-7781"
BIG = CANARY * 100
OLD, NEW = Keys("k1", {"k1": bytes(32)}), Keys("k2", {"k1": bytes(32), "k2": bytes(range(32))})


@pytest.fixture(params=list(STORES))
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def harness(store_kind: str, mode: str) -> AsyncIterator[Harness]:
    harness = Harness(STORES[store_kind](), mode)
    yield harness
    await harness.close()


def sealed(folder: Path, keys: Keys = NEW) -> Codec:
    """Every layer: JSON, encrypted, and what is above 1 kB in files."""
    return Offloaded(Encrypted(JsonCodec(), keys=keys), FolderBlobs(folder), above=1_000)


async def open_node(harness: Harness, codec: Codec, *workflows: Any) -> Node:
    node = Node(f"node-{len(harness.nodes)}", harness, workflows)
    node.engine._backend.codec = codec
    if codec.conceals:
        node.wire.behind.declare_encrypted()
    harness.nodes.append(node)
    await node.open()
    return node


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def dump(harness: Harness, *runs: Handle[Any] | str) -> bytes:
    """Everything that the store has of these runs."""
    views = harness.nodes[0].wire.behind.views
    ids = [run if isinstance(run, str) else run.run_id for run in runs]
    return repr([await views.detail(run_id) for run_id in ids]).encode()


@dataclasses.dataclass
class Order:
    skus: list[str]


@dataclasses.dataclass
class Paid:
    amount: int
    note: str


def make_everything(ledger: Ledger) -> Any:
    """A workflow of every kind of value: typed, big and small, moved between rows, read again after a replay."""

    async def pay(amount: int, note: str) -> Paid:
        ledger.note(f"pay {amount}")
        return Paid(amount, note)

    async def refund(amount: int, note: str, paid: Paid) -> str:
        ledger.note(f"refund {amount} {paid.amount} {len(note)}")
        return CANARY

    @workflow
    async def grandchild(ctx: Context, left: int) -> str:
        if left:
            await ctx.continue_as_new(left - 1)
        return BIG

    @workflow
    async def child(ctx: Context, note: str) -> Paid:
        got = await ctx.child(grandchild, 2)
        return Paid(len(note), got)

    async def count(ctx: Context, state: Paid) -> Continue[Paid] | Break[Paid]:
        await ctx.sleep("pause", "1s")
        return Continue(Paid(state.amount + 1, BIG)) if state.amount < 3 else Break(state)

    async def branch(ctx: Context) -> Paid:
        return await ctx.step("in branch", pay, 7, CANARY)

    async def item(ctx: Context, number: int) -> Paid:
        return Paid(number, BIG)

    @workflow
    async def everything(ctx: Context, round: int) -> dict[str, Any]:
        paid = await ctx.step("pay", step(pay, compensate=refund), round, BIG)
        once = await ctx.once("once", lambda: CANARY)
        heard = [(await ctx.receive("go")).payload]
        await ctx.sleep("until the others are there", "1s")
        while len(heard) < 3:
            heard += [message.payload for message in await ctx.receive_many("more", count=2)]
        first = await ctx.wait_any(answer=signal("answer"), late=timer("1d"))
        heard.append(first.value.payload)
        looped = await ctx.loop("loop", count, Paid(0, CANARY))
        joined = await ctx.join("join", {"one": branch, "two": branch})
        raced = await ctx.race("race", {"one": branch})
        mapped = await ctx.map("map", item, [1, 2])
        got = await ctx.child(child, BIG)
        if round == 1:
            await ctx.continue_as_new(2, compensations="drop")
        await ctx.sleep("rest", "1h")
        if round == 3:
            raise Failure("enough", {"round": round})
        return {"values": [paid, once, heard, looped, joined, raced.value, mapped, got]}

    return everything, child, grandchild


EXPECTED = {
    "values": [
        {"amount": 2, "note": BIG},
        CANARY,
        [CANARY, BIG, 3, CANARY],
        {"amount": 3, "note": BIG},
        {"one": {"amount": 7, "note": CANARY}, "two": {"amount": 7, "note": CANARY}},
        {"amount": 7, "note": CANARY},
        [{"amount": 1, "note": BIG}, {"amount": 2, "note": BIG}],
        {"amount": len(BIG), "note": BIG},
    ]
}


async def send_all(node: Node, target: str) -> None:
    for name, payload in [("go", CANARY), ("more", BIG), ("more", 3), ("answer", CANARY)]:
        await node.signal(target, name, payload, if_missing="hold")


async def test_every_kind_of_value_is_read_where_it_was_written_or_moved(
    harness: Harness, ledger: Ledger, tmp_path: Path
) -> None:
    flows = make_everything(ledger)
    worker = await open_node(harness, sealed(tmp_path), *flows)
    client = await open_node(harness, sealed(tmp_path))
    await send_all(client, "the-key")  # held for the key
    run = await client.start(flows[0], 1, key="the-key")
    await harness.advance("10s")
    await send_all(client, run.run_id)  # by the id of a run that was continued since
    await harness.advance("10m")
    worker = await harness_takeover(harness, worker, sealed(tmp_path), *flows)

    result = await worker.do(worker.engine.result(run.run_id, timeout="2m"))
    assert result == EXPECTED
    view = await harness.status(run)
    assert view.input == {"encrypted": "k2"}
    assert (await harness.status(view.successor or "")).output["encrypted"]
    children = [entry.value[0] for entry in await harness.history(run) if entry.kind == "child"]
    stored = await dump(harness, run, view.successor or "", *children)
    assert CANARY.encode() not in stored
    assert CANARY not in repr([await harness.history(run), view])
    assert not any(CANARY.encode() in content for content in contents(tmp_path).values())


async def test_every_kind_of_value_is_read_back_from_the_database(harness: Harness, ledger: Ledger) -> None:
    flows = make_everything(ledger)

    async def add(*workflows: Any) -> Node:
        node = await open_node(harness, JsonCodec(), *workflows)
        node.engine._backend.codec = Offloaded(Encrypted(JsonCodec(), keys=NEW), node.wire.store.blobs, above=1_000)
        if node.engine._worker is not None:
            node.engine._worker._resources.codec = node.engine._backend.codec
        return node

    worker, client = await add(*flows), await add()
    await send_all(client, "the-key")
    run = await client.start(flows[0], 1, key="the-key")
    await harness.advance("10s")
    await send_all(client, run.run_id)
    await harness.advance("10m")
    worker.crash()
    worker = await add(*flows)
    await harness.advance("90m")

    assert await worker.do(worker.engine.result(run.run_id, timeout="2m")) == EXPECTED
    view = await harness.status(run)
    assert (await harness.status(view.successor or "")).output["encrypted"]
    assert CANARY.encode() not in await dump(harness, run, view.successor or "")


async def harness_takeover(harness: Harness, worker: Node, codec: Codec, *flows: Any) -> Node:
    worker.crash()
    successor = await open_node(harness, codec, *flows)
    await harness.advance("90m")
    return successor


async def test_compensations_get_their_input_and_result_back(harness: Harness, ledger: Ledger, tmp_path: Path) -> None:
    flows = make_everything(ledger)
    worker = await open_node(harness, sealed(tmp_path), *flows)
    run = await worker.start(flows[0], 3)
    await send_all(worker, run.run_id)
    await harness.advance("10m")
    await harness_takeover(harness, worker, sealed(tmp_path), *flows)

    view = await harness.status(run)
    assert (view.status, view.failure.message, view.failure.data) == ("compensated", "enough", {"round": 3})
    assert ledger.lines[-1] == f"refund 3 3 {len(BIG)}"
    assert CANARY.encode() not in await dump(harness, run)


async def test_keys_are_rotated_while_runs_wait(harness: Harness, ledger: Ledger, tmp_path: Path) -> None:
    flows = make_everything(ledger)
    worker = await open_node(harness, sealed(tmp_path, OLD), *flows)
    run = await worker.start(flows[0], 2)
    await harness.advance("1s")
    both = Keys("k1", {"k1": bytes(32), "k2": bytes(range(32))})
    worker = await harness_takeover(harness, worker, sealed(tmp_path, both), *flows)
    client = await open_node(harness, sealed(tmp_path, NEW))
    await send_all(client, run.run_id)
    await harness.advance("10m")
    worker = await harness_takeover(harness, worker, sealed(tmp_path, NEW), *flows)

    assert await worker.do(worker.engine.result(run.run_id, timeout="2m")) == EXPECTED


async def test_a_worker_without_the_key_pauses_the_run_and_one_with_it_goes_on(
    harness: Harness, ledger: Ledger, tmp_path: Path
) -> None:
    flows = make_everything(ledger)
    worker = await open_node(harness, sealed(tmp_path, NEW), *flows)
    run = await worker.start(flows[0], 2)
    await send_all(worker, run.run_id)
    await harness.advance("10m")
    other = await harness_takeover(harness, worker, sealed(tmp_path, OLD), *flows)

    with pytest.raises(RunPaused, match="encrypted with key 'k2', which this engine does not have") as caught:
        await other.do(other.engine.result(run.run_id, timeout="2m"))
    assert "SW620" in caught.value.why
    worker = await harness_takeover(harness, other, sealed(tmp_path, NEW), *flows)
    await worker.do(worker.engine.holds.resume(run.run_id))
    assert await worker.do(worker.engine.result(run.run_id, timeout="90m")) == EXPECTED


async def test_a_lost_blob_pauses_the_run_and_its_return_lets_it_go_on(
    harness: Harness, ledger: Ledger, tmp_path: Path
) -> None:
    blobs, away = tmp_path / "blobs", tmp_path / "away"
    flows = make_everything(ledger)
    worker = await open_node(harness, sealed(blobs), *flows)
    run = await worker.start(flows[0], 2)
    await send_all(worker, run.run_id)
    await harness.advance("10m")
    blobs.rename(away)
    worker = await harness_takeover(harness, worker, sealed(blobs), *flows)

    with pytest.raises(RunPaused, match="its blob is lost"):
        await worker.do(worker.engine.result(run.run_id, timeout="2m"))
    for blob in away.iterdir():
        blob.rename(blobs / blob.name)
    await worker.do(worker.engine.holds.resume(run.run_id))
    assert await worker.do(worker.engine.result(run.run_id, timeout="90m")) == EXPECTED


async def test_a_blob_that_cannot_be_written_pauses_the_run_and_fails_no_step(
    harness: Harness, ledger: Ledger, tmp_path: Path
) -> None:
    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("big", step(ledger.body("big", BIG), compensate=ledger.body("undo")))

    blobs = tmp_path / "blobs"
    worker = await open_node(harness, sealed(blobs), flow)
    blobs.rmdir()
    run = await worker.start(flow)
    await harness.drain()
    assert (await harness.status(run)).status == "paused"
    blobs.mkdir()
    await worker.do(worker.engine.holds.resume(run.run_id))
    await harness.drain()

    assert await harness.result(run) == BIG
    assert ledger.lines == ["big", "big"]


async def test_a_debounced_input_is_sealed_for_the_run_that_it_becomes(harness: Harness, tmp_path: Path) -> None:
    @workflow
    async def index(ctx: Context, text: str) -> str:
        await ctx.sleep("work", "10s")
        return text

    worker = await open_node(harness, sealed(tmp_path), index)
    client = await open_node(harness, sealed(tmp_path))
    runs = []
    for text in ("one", "two", "three", BIG):
        call = client.engine.runs.start_debounced(index, text, key="k", quiet="2s")
        runs.append(await client.do(call))
        await harness.advance("1s" if text != "two" else "3s")
    await harness.advance("1m")

    results = [await worker.do(worker.engine.result(run.run_id)) for run in runs]
    assert results == ["two", "two", BIG, BIG]
    assert CANARY.encode() not in await dump(harness, *runs)


async def test_a_found_run_says_whether_its_input_is_the_same(harness: Harness, tmp_path: Path) -> None:
    @workflow
    async def flow(ctx: Context, note: str) -> None:
        await ctx.receive("never")

    for codec in (JsonCodec(), sealed(tmp_path)):
        node = await open_node(harness, codec)
        key = f"key-{type(codec).__name__}"
        first, same, other = [await node.start(flow, note, key=key) for note in (BIG, BIG, CANARY)]
        assert [(run.is_new, run.same_input) for run in (first, same, other)] == [
            (True, True),
            (False, True),
            (False, False),
        ]


async def test_values_of_an_old_shape_are_read_after_a_deployment(harness: Harness, tmp_path: Path) -> None:
    async def old_step() -> dict[str, Any]:
        return {"item": "a"}

    @workflow(name="flow")
    async def old(ctx: Context, order: dict[str, Any]) -> Any:
        await ctx.step("order", old_step)
        await ctx.receive("go")

    async def new_step() -> Order:
        raise AssertionError("it was done before")

    @workflow(name="flow")
    async def new(ctx: Context, order: Order) -> list[Order]:
        found = await ctx.step("order", new_step)
        await ctx.receive("go")
        return [order, found]

    worker = await open_node(harness, sealed(tmp_path), old)
    run = await worker.start(old, {"item": "b"})
    await harness.drain()
    codec = sealed(tmp_path)
    codec.register_upcaster(Order, lambda order: {"skus": [order["item"]]})
    worker = await harness_takeover(harness, worker, codec, new)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await worker.do(worker.engine.result(run.run_id)) == [Order(["b"]), Order(["a"])]


# --- attacks on the rows ---


class Swapped:
    """A store whose histories were tampered with: the values of two entries are exchanged."""

    def __init__(self, node: Node) -> None:
        self._load = node.wire.behind.runs.load

    async def load(self, run_ids: Any) -> Any:
        histories = await self._load(run_ids)
        return [
            history._replace(
                entries=(
                    history.entries[0]._replace(value=history.entries[1].value),
                    history.entries[1]._replace(value=history.entries[0].value),
                    *history.entries[2:],
                )
            )
            for history in histories
        ]


async def test_two_exchanged_rows_stop_the_run(
    harness: Harness, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    async def flow(ctx: Context) -> str:
        to = await ctx.step("to", ledger.body("to", "alice"))
        await ctx.step("from", ledger.body("from", "mallory"))
        await ctx.sleep("rest", "1h")
        return to

    worker = await open_node(harness, sealed(tmp_path), flow)
    run = await worker.start(flow)
    await harness.advance("1s")
    worker.crash()
    other = await open_node(harness, sealed(tmp_path), flow)
    monkeypatch.setattr(other.wire.behind.runs, "load", Swapped(other).load)
    await harness.advance("90m")

    with pytest.raises(RunPaused, match="`to` cannot be read back: it was not encrypted for this place"):
        await other.do(other.engine.result(run.run_id, timeout=0))


async def test_the_output_of_another_run_is_refused(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    async def flow(ctx: Context, value: str) -> str:
        return value

    worker = await open_node(harness, sealed(tmp_path), flow)
    mine, theirs = await worker.start(flow, "mine"), await worker.start(flow, "theirs")
    await harness.drain()
    find = worker.wire.behind.views.find
    other = await find(theirs.run_id)

    async def find_tampered(target: str) -> Any:
        return (await find(target))._replace(output=other.output)

    monkeypatch.setattr(worker.wire.behind.views, "find", find_tampered)
    assert await worker.do(worker.engine.result(theirs.run_id)) == "theirs"
    with pytest.raises(CorruptRecordError, match="the result of `flow` cannot be read back"):
        await worker.do(worker.engine.result(mine.run_id))


async def test_a_signal_to_another_run_stops_the_run_it_was_moved_to(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @workflow
    async def flow(ctx: Context) -> Any:
        return (await ctx.receive("approve")).payload

    worker = await open_node(harness, sealed(tmp_path), flow)
    mine, theirs = await worker.start(flow), await worker.start(flow, key="their-key")
    await harness.drain()
    signals = worker.wire.behind.signals
    deliver = signals.deliver

    async def deliver_elsewhere(sent: Any, *args: Any) -> Any:
        return await deliver([signal._replace(target=mine.run_id) for signal in sent], *args)

    monkeypatch.setattr(signals, "deliver", deliver_elsewhere)
    await worker.signal("their-key", "approve", True)
    await harness.drain()
    with pytest.raises(RunPaused, match="it was sent to 'their-key'"):
        await worker.do(worker.engine.result(mine.run_id, timeout=0))
    monkeypatch.undo()
    await worker.signal(theirs.run_id, "approve", True)
    await harness.drain()
    assert await harness.result(theirs) is True


# --- secrets ---


@dataclasses.dataclass
class Login:
    user: str
    password: Secret[str]


async def test_a_secret_is_refused_without_encryption(harness: Harness, tmp_path: Path) -> None:
    @workflow
    async def flow(ctx: Context, login: Login) -> None: ...

    plain = await open_node(harness, JsonCodec(), flow)
    with pytest.raises(UnserialisableError, match=r"`input\.password`: it is a Secret"):
        await plain.start(flow, Login("me", Secret(CANARY)))


async def test_a_canary_is_nowhere_on_disk_nor_in_views_or_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "blobs"

    def make_token() -> Secret[str]:
        return Secret(BIG)

    @step(retry=Retry(max_attempts=2, initial="10ms"))
    async def log_in(login: Login) -> Secret[str]:
        raise PermissionError(f"wrong password {login.password.reveal()!r} for {login.user}")

    @workflow
    async def flow(ctx: Context, login: Login) -> None:
        ctx.log.warning("logging in with %s", login.password.reveal())
        try:
            await ctx.step("log in", log_in, login)
        except PermissionError:
            token = await ctx.once("token", make_token)
            await ctx.receive("go")
            raise Failure(f"no {token.reveal()}", {"login": login, "text": login.password.reveal()}) from None

    async with Engine(f"sqlite:///{tmp_path}/shop.db", workflows=[flow], codec=sealed(folder)) as engine:
        run = await engine.start(flow, Login("me", Secret(CANARY)))
        await engine.signal(run.run_id, "go", {"again": CANARY})
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout="60s")
        await engine.cancel(run.run_id, f"because of {CANARY}")
        seen = repr([await engine.status(run.run_id), await engine.runs.history(run.run_id), str(caught.value)])
        seen += repr([await engine.runs.detail(run.run_id), await engine.explain(run.run_id)])
        on_disk = contents(tmp_path) | contents(folder)

    failure = caught.value.failure
    assert failure.message == "no ***"
    assert failure.data == {"login": {"user": "me", "password": "***"}, "text": "***"}
    assert "wrong password '***' for me" in seen
    assert CANARY not in seen
    assert CANARY not in caplog.text
    assert "logging in with ***" in caplog.text
    assert len(on_disk) >= 3
    assert [name for name, content in on_disk.items() if CANARY.encode() in content] == []


async def test_many_runs_with_every_layer_work_on_real_files(tmp_path: Path, ledger: Ledger) -> None:
    flows = make_everything(ledger)
    async with Engine(f"sqlite:///{tmp_path}/shop.db", workflows=flows[1:], codec=sealed(tmp_path / "blobs")) as engine:
        runs = [await engine.start(flows[1], BIG) for _ in range(10)]
        results = await asyncio.gather(*[run.result(timeout="60s") for run in runs])

    assert results == [Paid(len(BIG), BIG)] * 10
    assert CANARY.encode() not in (tmp_path / "shop.db").read_bytes()


REFUNDS: list[str] = []


async def give_back(note: str, paid: Paid) -> None:
    REFUNDS.append(f"{paid.amount} {len(note)}")


@step(compensate=give_back)
async def take(note: str) -> Paid:
    return Paid(len(REFUNDS) + 7, note)


async def test_what_a_successor_undoes_is_sealed_to_its_own_rows(harness: Harness, tmp_path: Path) -> None:
    @workflow
    async def rent(ctx: Context, left: int) -> None:
        await ctx.step(take, BIG if left == 2 else CANARY)
        if left:
            ctx.continue_as_new(left - 1)
        await ctx.receive("never")

    REFUNDS.clear()
    node = await open_node(harness, sealed(tmp_path), rent)
    run = await node.start(rent, 2, key="k")
    await harness.drain()
    chain = [await harness.status(run)]
    while chain[-1].successor is not None:
        chain.append(await harness.status(chain[-1].successor))
    assert CANARY.encode() not in await dump(harness, *(view.run_id for view in chain))
    await node.do(node.engine.cancel("k"))
    await harness.advance("1m")

    assert [f"7 {len(CANARY)}", f"7 {len(CANARY)}", f"7 {len(BIG)}"] == REFUNDS
