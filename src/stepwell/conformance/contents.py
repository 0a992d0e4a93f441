"""A store that contains one of everything that can be moved."""

from __future__ import annotations

from stepwell.clock import Instant, Span
from stepwell.conformance.live import line
from stepwell.conformance.outbox import emit, settle, take
from stepwell.conformance.reach import reach
from stepwell.conformance.records import change, closing, new_record, opening
from stepwell.conformance.scene import (
    FIRST,
    Scene,
    Turn,
    new_run,
    new_signal,
    place,
    step,
    wait_child,
    wait_signal,
    wait_timer,
    wait_topic,
)
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.model.amendments import Amendment, Fork
from stepwell.model.commits import End, Park, Release
from stepwell.model.entries import Attempt, Cursor, Progress
from stepwell.model.failures import encode_failure
from stepwell.model.ledger import NewAct, Reservation
from stepwell.model.live import ChunkKind, Published
from stepwell.model.records import NewRecordEvent
from stepwell.model.runs import Parent
from stepwell.model.signals import Refusal, Reply, ReplyStatus
from stepwell.model.states import RunStatus, WaitKind
from stepwell.stores.base.packed_items import Item
from stepwell.stores.base.store import Store

SECONDS = 1_000_000
FAILURE = encode_failure(FailureRecord("Oops", "no", path="a"))


async def pack_all(store: Store, *, limit: int = 1_000) -> list[Item]:
    """Everything that a sealed store holds, as it is packed."""
    items: list[Item] = []
    batch = await store.transfers.pack(limit=limit)
    while batch.next:
        assert batch.items
        assert len(batch.items) <= limit
        items += batch.items
        batch = await store.transfers.pack(batch.next, limit=limit)
    return [*items, *batch.items]


async def fill(scene: Scene) -> None:
    """Put one of everything into a store. When this returns, no worker is alive; one died while it owned a run."""
    await scene.begin("left by the dead", priority=-3, tags=(("team", "ä"), ("vip", "")))
    await _fill_topics(scene)
    await _fill_history(scene)
    await _fill_signals(scene)
    await _fill_outbox(scene)
    await _fill_families(scene)
    await _fill_ledger(scene)
    await _fill_records(scene)
    for content in (b"", bytes(range(256)) * 9):
        scene.store.blobs.put(content)
    for status in RunStatus:
        await reach(scene, f"a {status.value} run", status, is_owned=False)
    await scene.lose_worker()


async def _fill_history(scene: Scene) -> None:
    """A run with every kind of record, and with bytes and numbers that are easily lost."""
    now = scene.clock.now()
    every = bytes(range(256))
    limits = {"deadline_at": Instant(now + 3_600 * SECONDS), "max_suspend": Span(77), "discards": True, "priority": 5}
    turn = await scene.begin("h1", key="ключ", input=every, **limits)
    await turn.commit(
        names=("a", "b ä", "c"),
        entries=(step(1, place(0), value=every, took=2**40, attempts=3, undo=every), step(2, place(1), value=b"")),
        attempts=(Attempt(place(2), 1, now, b"\x00f", Instant(now + 5)), Attempt(place(2), 2, now, None, None)),
        cursors=(Cursor(place(1), 7, 3, b"\xffs"),),
        progress=(Progress(place(2), now, b"half", 5, 10, "rows", "on it", 2), Progress(place(0), now)),
        published=(Published("", 0, every), Published("ä", 9, b"")),
        appends=(line("1", "a", 1), line("2", "a", 1), line("3", "a", 2, begins=True), line("x", stream="t")),
    )
    await turn.commit(appends=(line("", stream="t")._replace(kind=ChunkKind.CLOSE),))
    retry = wait_timer(Instant(now + 5 * SECONDS), place(2))._replace(kind=WaitKind.RETRY, token=2**40)
    waits = (wait_signal("b", "a", at=place(0)), wait_signal(at=place(1)), retry._replace(limit_at=Instant(now + 9)))
    await turn.park(*waits, wake_at=Instant(now + 5 * SECONDS))
    await (await scene.begin("h2", key="ended")).end(output=every)
    failed = await scene.begin("h3")
    await failed.commit(
        names=("a",), cursors=(Cursor(place(0), 1, 0, b""),), move=End(RunStatus.FAILED, failure=FAILURE)
    )
    unwanted = await scene.begin("h4")
    await unwanted.park(wait_signal("go"))
    await scene.cancel("h4", reason="not needed")
    await scene.store.runs.retry(RunId("h3"), by="ann")
    waiting = await scene.run("h1")
    await scene.store.runs.fork(Fork(new_run("h5"), waiting.run_id, waiting.epoch, waiting.revision, ("a",)))
    [forked] = [turn for turn in await scene.claim() if turn.run_id == "h5"]
    await forked.park(wait_signal("go"))
    run = await scene.run("h5")
    await scene.store.runs.amend(Amendment("a1", run.run_id, run.status, run.epoch, run.revision, "rewind", "ann"))


async def _fill_signals(scene: Scene) -> None:
    """Signals in every state: pending, consumed, refused, answered, unread, discarded, held."""
    deliver = scene.store.signals.deliver
    turn = await scene.begin("s1")
    names = ("pending", "consumed", "refused", "asked", "answered", "told no")
    asks = {"asked", "answered", "told no"}
    await deliver([new_signal(f"s1 {one}", "s1", "go", dedup_key=f"d {one}", asks=one in asks) for one in names])
    found = {one.payload.decode()[3:]: one.number for one in (await scene.store.runs.inbox(RunId("s1"))).signals}
    await turn.commit(
        consumed=(found["consumed"], found["answered"]),
        refused=(Refusal(found["refused"], "not an order"), Refusal(found["told no"], "no")),
        replies=(
            Reply(found["answered"], ReplyStatus.GIVEN, b"\x00yes"),
            Reply(found["told no"], ReplyStatus.REFUSED, b"{}"),
        ),
    )
    await turn.park(wait_signal("never"))
    for run_id, discards in (("s2", True), ("s3", False)):
        ended = await scene.begin(run_id, discards=discards)
        await deliver([new_signal(f"{run_id} unread", run_id, dedup_key="d")])
        await ended.end()
    held = [new_signal(f"held {n}", "later", "go", dedup_key=f"d{n}", hold=True, asks=n == 2) for n in (1, 2)]
    await deliver([*held, new_signal("held 3", "much later", hold=True)])


async def _fill_topics(scene: Scene) -> None:
    """Waits that were opened in another order than their runs were created, and events in every place."""
    turns: dict[str, Turn] = {name: await scene.begin(name) for name in ("t1", "t2", "t3", "t4", "t5")}
    await turns["t3"].park(wait_topic("news", "a=1", "b=2"), wait_topic("other", at=place(1), since="all", token=9))
    await turns["t1"].park(wait_topic("news"))
    await turns["t2"].park(wait_topic("news"))
    await turns["t4"].park(wait_topic("mine"), wait_signal(at=place(1)))
    await turns["t5"].park(wait_topic("kept"))
    await scene.publish("e1", "mine", facets=("x=1",), deliver="one", retain=Span(900 * SECONDS))
    await scene.publish("e2", "kept", deliver="all", retain=Span(900 * SECONDS))
    await scene.publish("e3", "kept", deliver="one", retain=Span(800 * SECONDS))
    await scene.publish("e4", "unheard")
    turns = {turn.run_id: turn for turn in await scene.claim()}
    await turns["t4"].commit(move=Release())
    [event] = turns["t5"].claimed.inbox.events
    await turns["t5"].commit(received=(event.number,), waits=(wait_topic("kept", token=2),), move=Park(None))


async def _fill_families(scene: Scene) -> None:
    """Children in every relation, a chain, a replaced run, a debounced run, and a delayed run."""
    parent = await scene.begin("p1")
    await parent.commit(names=("a", "b", "c", "d"))
    for n, (detached, tied) in enumerate(((False, False), (True, False), (True, True))):
        bond = Parent(RunId("p1"), place(n), detached, tied)
        children = (new_run(f"c{n}", parent=bond),)
        [claimed] = (await parent.commit(children=children, claimant=scene.claimant())).claimed
        await Turn(scene.store, claimed).park(wait_signal("go"))
    await (await scene.begin_child(parent, "c9", place(3))).end(RunStatus.FAILED, failure=FAILURE)
    await parent.park(wait_child(FIRST))
    first = await scene.begin("g1", key="chain")
    await scene.send("g unread", "g1")
    await first.commit(move=End(RunStatus.CONTINUED, successor=new_run("g2")))
    replaced = await scene.begin("x1", key="x")
    await replaced.record("a", undo=b"u")
    await replaced.park(wait_signal("go"))
    await scene.create("x2", key="x", on_conflict="replace", delay=Span(50 * SECONDS))
    planned = new_run("d1", key="d", version=2, priority=2)
    await scene.store.runs.debounce(planned, quiet=Span(60 * SECONDS), max_wait=Span(600 * SECONDS))


async def _fill_ledger(scene: Scene) -> None:
    """Idempotency keys, open and settled, and lines of the audit."""
    ledger, until = scene.store.ledger, Instant(scene.clock.now() + 3_600 * SECONDS)
    for scope, key in (("start by ann", "k"), ("start by ann", "ключ"), ("Start by bob", '"k"\\')):
        await ledger.reserve(Reservation(scope, key, "f", "", until))
    await ledger.settle("start by ann", "k", "delivered")
    for outcome in ("asked", "201"):
        await ledger.note(NewAct("q1", "ann", "start_run", "Über flow", outcome, "", "pending"))


async def _fill_records(scene: Scene) -> None:
    """Records of runs and of nobody, open and closed, with histories."""
    due, every = Instant(scene.clock.now() + 3_600 * SECONDS), bytes(range(256))
    of_nobody = new_record("n1", kind="Übersicht", labels=("B", "a", "ä"), due_at=due, body=every, end_state="gone")
    await change(scene, "n1 made", of_nobody, events=(NewRecordEvent("made", "ä", every), NewRecordEvent("noted")))
    await change(scene, "n1 changed", of_nobody._replace(state="verändert"), 1)
    await change(scene, "n2 made", new_record("n2", is_open=False))
    turn = await scene.begin("k1")
    await turn.commit(names=("a",), opened=(opening("k2", labels=("a",), due_at=due), opening("k3"), opening("k4")))
    await turn.commit(closed=(closing("k3"),))
    await change(scene, "k4 changed", new_record("k4", labels=("a",)), 1)
    await turn.park(wait_signal("go"))


async def _fill_outbox(scene: Scene) -> None:
    """Events that are due, that wait for earlier ones, that will be retried, and dead letters."""
    turn = await scene.begin("o1", key="o")
    await turn.commit(emits=tuple(emit(f"o{n}", "s", "t") for n in range(4)))
    [batch] = await take(scene)
    await settle(scene, batch, sent=1, unsent=None)
    [batch] = await take(scene, "t")
    await settle(scene, batch, unsent=Span(400 * SECONDS))
    await take(scene)  # the worker has it when it dies
    await turn.park(wait_signal("go"))
