"""The parts of a commit, one kind after the other. There are few locations and names, so that they collide."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.errors.records import FailureRecord
from stepwell.ids import EventId, RunId
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.failures import encode_failure
from stepwell.model.live import Append, ChunkKind, Published
from stepwell.model.locations import ROOT, Location, format_path, iteration, iterations, named, subtree, undo, use
from stepwell.model.outbox import Emit
from stepwell.model.runs import NewRun, Parent, Run
from stepwell.model.signals import Refusal, Reply, ReplyStatus
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.waits import Since, Wait
from tests.differential.events import FACETS, TOPICS
from tests.differential.outbox import SINKS
from tests.differential.runs import is_crowded, new_run
from tests.differential.signals import NAMES as SIGNALS
from tests.differential.world import World

NAMES = ("a", "b", "Café", "loop", "d")
_LOOP = named(ROOT, 3)
_PLACES = (
    *(named(ROOT, number) for number in range(3)),
    use(named(ROOT, 0), 2),
    undo(named(ROOT, 1)),
    _LOOP,
    *(iteration(_LOOP, number) for number in range(3)),
    *(named(iteration(_LOOP, number), 4) for number in range(3)),
)
_SINCE: tuple[Since, ...] = ("wait", "start", "all")
_STREAMS = ("s", "T", "ä")


def a_place(world: World) -> Location:
    """Any place."""
    return world.chance.choice(_PLACES)


def recorded(world: World, run_id: RunId) -> list[Location]:
    """The places that have an entry."""
    return [entry.location for entry in world.state["runs"][run_id]["history"].entries]


def a_free_place(world: World, run_id: RunId) -> Location:
    """A place without an entry; a new one if there is none."""
    taken = set(recorded(world, run_id))
    free = [place for place in _PLACES if place not in taken]
    return world.chance.choice(free) if free else named(iteration(_LOOP, 100 + len(taken)), 4)


def last_seq(world: World, run_id: RunId) -> int:
    """The length of the history."""
    row = world.row(run_id)
    return 0 if row is None else row.last_seq


def maybe_due(world: World) -> Instant | None:
    """A past or future instant, or none."""
    return world.chance.choice([None, Instant(world.now - 1), world.now, Instant(world.now + 1_000_000)])


# --- history ------------------------------------------------------------------------------------


def an_entry(world: World, seq: int, at: Location, status: EntryStatus | None = None) -> Entry:
    """An entry."""
    status = world.chance.choice(list(EntryStatus)) if status is None else status
    attempts, stack = world.chance.choice([0, 1, 3]), world.chance.choice([None] * 6 + [b"u", b""])
    value = world.chance.choice([b"", b"v%d" % seq])
    fingerprint = world.chance.choice([None, None, b"\1a", b"\x08" + bytes(range(8, 24))])
    kind = world.chance.choice(list(EntryKind))
    return Entry(seq, at, kind, status, value, world.now, 5, attempts, stack, fingerprint)


def an_entry_at(seq: int, at: Location, now: Instant) -> Entry:
    """The entry of a transactional step, at the instant of its transaction."""
    return Entry(seq, at, EntryKind.STEP, EntryStatus.DONE, b"v", now, 5)


def entries(world: World, run: Run) -> tuple[Entry, ...]:
    """Entries that continue the history: at the place of a failed child if there is one, else anywhere free."""
    taken = set(recorded(world, run.run_id))
    failed = [one.parent.location for one in _children(world, run) if one.status is RunStatus.FAILED and one.parent]
    where = [at for at in dict.fromkeys(failed) if at not in taken][:1]
    found = [an_entry(world, run.last_seq + 1, at, EntryStatus.FAILED) for at in where]
    free = [place for place in _PLACES if place not in taken and place not in where]
    for at in world.chance.sample(free, min(len(free), world.chance.choice([0, 1, 1, 2]))):
        found.append(an_entry(world, run.last_seq + 1 + len(found), at))
    return tuple(found)


def failed_places(world: World, run: Run) -> list[Location]:
    """The locations with a failed entry; only those of failed children if there are any."""
    state = world.state["runs"][run.run_id]
    failed = [entry.location for entry in state["history"].entries if entry.status is EntryStatus.FAILED]
    return lost_places(world, run) or failed


def lost_places(world: World, run: Run) -> list[Location]:
    """The locations of failed children whose failure is recorded."""
    entries = world.state["runs"][run.run_id]["history"].entries
    lost = {one.parent.location for one in _children(world, run) if one.status is RunStatus.FAILED and one.parent}
    return [one.location for one in entries if one.status is EntryStatus.FAILED and one.location in lost]


def a_failure(world: World, run: Run) -> bytes:
    """The failure of a run: at a location with a failed entry if there is one."""
    names, places = world.state["runs"][run.run_id]["history"].names, failed_places(world, run)
    path = format_path(world.chance.choice(places), names) if places and world.likely(0.9) else "a"
    return encode_failure(FailureRecord("Oops", "no “ü”", path=path))


def _children(world: World, run: Run) -> list[Run]:
    return [world.state["runs"][child]["run"] for child in world.state["runs"][run.run_id]["children"]]


def an_attempt(world: World, at: Location) -> Attempt:
    """A failed attempt, or the start of one."""
    return Attempt(at, world.chance.randint(1, 3), world.now, world.chance.choice([None, b"f", b""]), maybe_due(world))


def a_cursor(world: World, at: Location) -> Cursor:
    """The cursor of a loop."""
    return Cursor(at, world.chance.randint(1, 3), world.chance.randint(0, 1), world.chance.choice([b"", b"s"]))


def progress(world: World, at: Location) -> tuple[Progress, ...]:
    """The progress of step bodies."""
    some = [at, *world.some(_PLACES[:2], 0.3)]
    return tuple(
        Progress(
            place,
            world.now,
            world.chance.choice([None, b"", b"s", b"t"]),
            done=world.chance.choice([None, 0, 2**40]),
            total=world.chance.choice([None, 7]),
            unit=world.chance.choice(["", "Stück"]),
            note=world.chance.choice(["", "so weit\n“gut”"]),
            turns=world.chance.randint(0, 2),
        )
        for place in dict.fromkeys(some)
    )


def trims(world: World, at: Location) -> tuple[tuple[Location, Location], ...]:
    """Ranges that are no longer needed."""
    first = world.chance.randint(0, 2)
    ranges = [subtree(at), iterations(_LOOP, first, first + 1), subtree(_LOOP), subtree(ROOT)]
    return (ranges[0], *world.some(ranges[1:3], 0.3), *world.some(ranges[3:], 0.1))


# --- others -------------------------------------------------------------------------------------


def children(world: World, run: Run) -> tuple[NewRun, ...]:
    """Children to start; sometimes one that exists already."""
    if is_crowded(world) and world.likely(0.7):
        return ()
    found = []
    for at in world.chance.sample(_PLACES, world.chance.choice([1, 1, 2])):
        parent = Parent(run.run_id, at, detached=world.likely(0.3), tied=world.likely(0.3))
        known = world.a_run()
        run_id = known.run_id if known is not None and world.likely(0.1) else RunId(world.next_id("r"))
        found.append(new_run(world, run_id=run_id, parent=parent))
    return tuple(found)


def waits(world: World, run: Run) -> tuple[Wait, ...]:
    """Waits of a run, each at its own location; some unchanged."""
    before = {wait.location: wait for wait in world.state["runs"][run.run_id]["history"].waits}
    started = [one.parent.location for one in world.runs() if one.parent and one.parent.run_id == run.run_id]
    places = world.chance.sample(_PLACES, world.chance.choice([0, 1, 1, 2, 3]))
    if started and world.likely(0.7):
        places = list(dict.fromkeys([world.chance.choice(started), *places]))
    return tuple(
        before[at] if at in before and world.likely(0.7) else _a_wait(world, at, at in started) for at in places
    )


def _a_wait(world: World, at: Location, has_child: bool) -> Wait:
    due, limit, token = maybe_due(world), maybe_due(world), world.chance.randint(1, 5)
    kinds = [WaitKind.SIGNAL, WaitKind.SIGNAL, *[WaitKind.TOPIC] * 4, WaitKind.TIMER, WaitKind.RETRY, WaitKind.CHILD]
    kind = WaitKind.CHILD if has_child and world.likely(0.8) else world.chance.choice(kinds)
    names: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    since: Since = "wait"
    if kind is WaitKind.SIGNAL:
        names = world.some(SIGNALS, 0.4)
    elif kind is WaitKind.TOPIC:
        names, where = (world.chance.choice(TOPICS),), world.some(FACETS, 0.15)
        since = world.chance.choice(_SINCE)
    return Wait(at, kind, token, due, names, where, since, limit)


def a_refusal(world: World, number: int) -> Refusal:
    """A signal that the run refuses."""
    return Refusal(number, world.chance.choice(["no", "weil's «nicht» passt"]))


def refusals(world: World, numbers: list[int]) -> tuple[Refusal, ...]:
    """Some of the remaining signals, to refuse."""
    return tuple(a_refusal(world, number) for number in world.some(numbers, 0.15))


def replies(world: World, numbers: list[int]) -> tuple[Reply, ...]:
    """Replies to signals that asked, sometimes two to the same signal."""
    some = world.some(numbers, 0.4)
    return tuple(
        Reply(one, world.chance.choice(list(ReplyStatus)), b"r%d" % world.chance.randint(1, 3)) for one in some
    )


# --- published values and streams ------------------------------------------------------------------------------


def emits(world: World) -> tuple[Emit, ...]:
    """Events for sinks; sometimes one that was emitted before."""
    found = []
    for _ in range(world.chance.choice([1, 1, 2])):
        event_id = EventId(world.next_id("x"))
        if world.emitted and world.likely(0.1):
            event_id = world.chance.choice(world.emitted)
        else:
            world.emitted.append(event_id)
        found.append(
            Emit(event_id, "order.paid", "a/Café", world.chance.choice([b"", b"p"]), world.now, world.some(SINKS))
        )
    return tuple(found)


def published(world: World) -> tuple[Published, ...]:
    """Published values, some older than the stored ones."""
    count = world.chance.choice([1, 1, 2])
    names = [world.chance.choice(["", "b", "B", "ä"]) for _ in range(count)]
    return tuple(Published(name, world.chance.randint(0, 5), b"%d" % world.chance.randint(0, 9)) for name in names)


def appends(world: World) -> tuple[Append, ...]:
    """Lines of streams, some of a restarted step."""
    kinds = (ChunkKind.DATA,) * 9 + (ChunkKind.CLOSE,)
    found = []
    for _ in range(world.chance.choice([1, 1, 2, 3])):
        part = world.chance.randint(1, 3)
        found.append(
            Append(
                world.chance.choice(_STREAMS),
                world.chance.choice(kinds),
                b"%d" % world.chance.randint(0, 9),
                world.chance.choice(["", "a", "Café"]),
                part,
                begins=part > 1 and world.likely(0.7),
            )
        )
    return tuple(found)
