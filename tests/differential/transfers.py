"""Moving a whole world: each store's contents go into a fresh store of the next kind, where the world continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from stepwell.conformance.contents import pack_all
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.stores.base.packed_items import Item, PackedRun, TransferBatch
from stepwell.stores.base.store import Store
from stepwell.stores.base.transfers import TransferStore
from tests.differential.differences import differences
from tests.differential.runs import is_crowded
from tests.differential.stores import Opened
from tests.differential.world import Divergence, Handle, Operation, World

_DECODER = msgspec.json.Decoder(TransferBatch)
_LONGER_THAN_ANY_LEASE = "1h"


async def move_all(world: World, destinations: Mapping[str, Opened]) -> Counter[str]:
    """Move the contents of each store to the destination for its name, and continue the world there. Returns
    the methods that were called, and how often.

    Raises `Divergence` if the stores do not answer alike, do not pack the same, or if something arrives changed.
    """

    def here(handle: Handle) -> TransferStore:
        return handle.opened.store.transfers

    def there(handle: Handle) -> TransferStore:
        return destinations[handle.opened.name].store.transfers

    kinds: Counter[str] = Counter()

    async def do(name: str, call: Callable[[Handle], Awaitable[Any]], fact: str = "done") -> None:
        kinds[f"transfers.{name}"] += 1
        await world.perform(Operation(f"transfers.{name}", (), call, lambda _: (fact,)))

    for handle in world.handles:
        # Blobs without references are stored with the next other transition.
        await handle.opened.store.workers.retire(Incarnation("nobody"))
    await do("pack", lambda handle: here(handle).pack(limit=1))
    await do("seal", lambda handle: here(handle).seal("t0", "there"))
    await do("unseal", lambda handle: here(handle).unseal("t0"))
    await do("find_seal", lambda handle: here(handle).find_seal(), "open")
    world.clock.advance(_LONGER_THAN_ANY_LEASE)
    await do("seal", lambda handle: here(handle).seal("t1", "there"))
    await do("find_seal", lambda handle: here(handle).find_seal(), "sealed")
    await do("manifest", lambda handle: here(handle).manifest())
    await do("pack", lambda handle: pack_all(handle.opened.store, limit=7))

    since = world.now
    await do("expect", lambda handle: there(handle).expect("t1", "here", since=since))
    await do("unpack", lambda handle: _copy(here(handle), there(handle), batches_max=2))
    await do("reject", lambda handle: there(handle).reject("t1"))
    await do("expect", lambda handle: there(handle).expect("t1", "here", since=since))
    await do("unpack", lambda handle: _copy(here(handle), there(handle)))
    await do("unpack", lambda handle: _compare(handle.opened.store, destinations[handle.opened.name].store))
    await do("release", lambda handle: here(handle).release("t1"))
    await do("accept", lambda handle: there(handle).accept("t1"))
    world.handles = [Handle(destinations[handle.opened.name], handle.numbers) for handle in world.handles]
    await world.look()
    return kinds


def restore(world: World) -> Operation | None:
    """Add a copy of a run to a store in use, as an import does."""
    known = world.a_run(_is_movable)
    if known is None or (is_crowded(world) and world.likely(0.7)):
        return None
    is_over = known.status in TERMINAL
    run = known._replace(
        run_id=known.run_id if world.likely(0.1) else RunId(world.next_id("r")),
        status=known.status if is_over else RunStatus.PENDING,
        key=known.key if world.likely(0.5) else None,
        epoch=1,
        owner=None,
        wake_at=None if is_over else world.now,
        parent=None,
        successor=None,
    )
    history = world.state["runs"][known.run_id]["history"]._replace(waits=())
    packed = PackedRun(run, 0, world.likely(0.3), history, (), (), (), ())
    return Operation(
        "transfers.restore",
        (packed,),
        lambda at: at.opened.store.transfers.restore(packed),
        lambda is_added: ["added" if is_added else "taken"],
    )


def _is_movable(run: Run) -> bool:
    goes_on = run.status in (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING)
    is_at_rest = run.debounced_until is None and run.replaced_by is None and run.hold is None
    return is_at_rest and (goes_on or run.status in TERMINAL)


async def _copy(source: TransferStore, destination: TransferStore, batches_max: int = 1_000_000) -> None:
    mark = ""
    for _ in range(batches_max):
        batch = _DECODER.decode(msgspec.json.encode(await source.pack(mark, limit=5)))
        await destination.unpack("t1", batch)
        mark = batch.next
        if not mark:
            break


async def _compare(source: Store, destination: Store) -> list[Item]:
    """Pack the destination: the items and views must equal those of the source."""
    left, arrived = await pack_all(source), await pack_all(destination)
    if left != arrived:
        raise Divergence(f"packed again it is not the same\n{differences({'items': left}, {'items': arrived})}")
    before, after = await snapshot(source), await snapshot(destination)
    if before != after:
        raise Divergence(f"in the destination it shows otherwise\n{differences(before, after)}")
    return arrived
