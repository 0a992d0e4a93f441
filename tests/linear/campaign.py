"""Many clients read, signal and cancel the same runs; every history must be linearizable.

`python -m tests.linear.campaign --histories 2000` for each store. The clients have engines of their own on one
database; a worker serves the runs, and is replaced all the time. Some answers get lost, before or after the store has
done what was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from stepwell import Engine, WorkerSettings
from stepwell.addresses import open_store
from stepwell.engine.views import entry_views
from stepwell.environment import system_environment
from stepwell.errors import NotFoundError, RunEndedError, StoreUnavailableError
from stepwell.ids import RunId
from stepwell.model.states import RunStatus
from tests.linear.checker import UNKNOWN, Linearizer, Operation
from tests.linear.mailboxes import SIGNAL, Mailbox, mailbox
from tests.servers.postgres import PostgresServer
from tools.progress import Bar
from tools.results import Result, Trial, keep

STORES = ("sqlite", "postgres")
CLIENTS = 3
OPERATIONS = 12  # of each client, for each run
AT_ONCE = 16  # runs
LOSS = 0.04  # of the questions, and of the answers
BREAK = 0.05  # of the calls, whose questions or answers all get lost
_NEVER = 1 << 60
_LOSS: ContextVar[float] = ContextVar("loss")  # of the call under way
_CLOSED = (RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.CANCELLED)


class Client:
    """An engine of its own, whose answers get lost at times."""

    def __init__(self, number: int, url: str, rng: random.Random, ticks: Iterator[int]) -> None:
        self._number = number
        self._rng = rng
        self._ticks = ticks
        self._store = open_store(url, system_environment())
        self.engine = Engine(self._store, workflows=[mailbox], worker=False)
        for noun, call in ((self._store.signals, "deliver"), (self._store.runs, "cancel")):
            setattr(noun, call, self._lossy(getattr(noun, call)))

    def _lossy(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def do(*args: Any, **kwargs: Any) -> Any:
            loss = _LOSS.get()
            if self._rng.random() < loss:
                raise StoreUnavailableError("the question got lost")
            answer = await call(*args, **kwargs)
            if self._rng.random() < loss:
                raise StoreUnavailableError("the answer got lost")
            return answer

        return do

    async def use(self, run_id: RunId, history: list[Operation]) -> None:
        """Do something to a run, again and again."""
        for number in range(OPERATIONS):
            call = self._rng.choices(("signal", "read", "status", "cancel"), (5, 4, 4, 0.15))[0]
            argument = f"{self._number}.{number}" if call == "signal" else ""
            _LOSS.set(0.7 if self._rng.random() < BREAK else LOSS)
            began = next(self._ticks)
            try:
                answer = await getattr(self, f"_{call}")(run_id, argument)
                ended = next(self._ticks)
            except StoreUnavailableError:
                answer, ended = UNKNOWN, _NEVER
            history.append(Operation(self._number, call, argument, answer, began, ended))
            if self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.uniform(0, 0.003))

    async def _signal(self, run_id: RunId, payload: str) -> str:
        try:
            return (await self.engine.signal(run_id, SIGNAL, payload)).value
        except (RunEndedError, NotFoundError):
            return "ended"

    async def _cancel(self, run_id: RunId, _: str) -> bool:
        return await self.engine.cancel(run_id)

    async def _status(self, run_id: RunId, _: str) -> bool:
        view = await self.engine.status(run_id)
        return view is not None and RunStatus(view.status) in _CLOSED

    async def _read(self, run_id: RunId, _: str) -> tuple[bool, tuple[str, ...]]:
        detail = await self.engine.runs.detail(run_id)
        consumed = [text for entry in entry_views(detail) if entry.kind == "receive" for _, text in entry.value]
        pending = [signal.payload[1:].decode().strip('"') for signal in detail.signals]
        return detail.run.status in _CLOSED, (*consumed, *pending)


class Campaign:
    """All histories on one store."""

    def __init__(self, url: str, count: int, seed: int) -> None:
        self._url = url
        self._count = count
        self._rng = random.Random(seed)
        self._ticks = itertools.count(1)
        self._is_over = asyncio.Event()
        self.figures: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Have the histories made and checked."""
        clients = [Client(number, self._url, self._rng, self._ticks) for number in range(CLIENTS)]
        bar = Bar(self._count, "histories")
        async with AsyncExitStack() as stack:
            for client in clients:
                await stack.enter_async_context(client.engine)
            serving = asyncio.ensure_future(self._serve())
            for done in range(0, self._count, AT_ONCE):
                await asyncio.gather(*(self._one(clients) for _ in range(min(AT_ONCE, self._count - done))))
                bar.show(min(done + AT_ONCE, self._count))
            self._is_over.set()
            await serving

    async def _serve(self) -> None:
        """One worker after the other, each for a short time."""
        while not self._is_over.is_set():
            settings = WorkerSettings(lease="2s", mode=self._rng.choice(("live", "yield")))
            async with Engine(self._url, workflows=[mailbox], settings=settings):
                self.figures["workers"] += 1
                try:
                    await asyncio.wait_for(self._is_over.wait(), self._rng.uniform(0.2, 1.0))
                except TimeoutError:
                    continue

    async def _one(self, clients: list[Client]) -> None:
        run = await clients[0].engine.start(mailbox)
        history: list[Operation] = []
        await asyncio.gather(*(client.use(run.run_id, history) for client in clients))
        self.figures["operations"] += len(history)
        self.figures["acknowledged"] += sum(operation.answer is not UNKNOWN for operation in history)
        self.figures["lost answers"] += sum(operation.answer is UNKNOWN for operation in history)
        linearizer = Linearizer(Mailbox(), history)
        if not linearizer.is_linearizable():
            self.wrong.append(tell(run.run_id, history, linearizer))


def tell(run_id: str, history: list[Operation], linearizer: Linearizer[Any]) -> str:
    """A history that nothing explains, for whoever has to find out why."""
    explained = set(linearizer.longest)
    lines = [f"{' ' if each in explained else '!'} {each}" for each in sorted(history, key=lambda each: each.began)]
    return "\n".join([f"run {run_id} (what cannot be explained is marked)", *lines])


@contextmanager
def database(store: str) -> Iterator[str]:
    """The address of a new one."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory(prefix="stepwell-linear-") as folder:
            yield f"sqlite:///{Path(folder) / 'linear.db'}"
    else:
        with PostgresServer(durable=False) as server:
            yield server.create_database()


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, run the histories, and say how it went."""
    parser = argparse.ArgumentParser(prog="linear", description=__doc__)
    parser.add_argument("--store", choices=STORES, help="both, one after the other, if it is left out")
    parser.add_argument("--histories", type=int, default=2_000, help="for each store")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    trials, began, wrong = [], time.monotonic(), 0
    for store in [options.store] if options.store else STORES:
        with database(store) as url:
            campaign = Campaign(url, options.histories, seed)
            asyncio.run(campaign.run())
        print(f"\n{options.histories:,} histories on {store}, seed {seed}")
        for name, value in campaign.figures.items():
            print(f"  {name:<16}{value:>10,}")
        print(f"  {'not linearizable':<16}{len(campaign.wrong):>10,}", *campaign.wrong[:3], sep="\n")
        wrong += len(campaign.wrong)
        fault = f"concurrent clients and lost answers, {store}"
        acknowledged = campaign.figures["acknowledged"]
        trials.append(Trial(fault, options.histories, acknowledged, lost=len(campaign.wrong), doubled=None, stuck=None))
    print(f"{wrong} WRONG HISTORIES" if wrong else "every history is linearizable")
    if options.record:
        command = f"make linear HISTORIES={options.histories}"
        keep(Result("linear", command, time.monotonic() - began, tuple(trials)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
