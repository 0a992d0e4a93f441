"""The supervisor: prints what happens, and reacts to keys."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from stepwell.addresses import open_store, spell_url
from stepwell.app import App, reading_codec
from stepwell.cli.dev import reloads
from stepwell.cli.dev.banner import banner
from stepwell.cli.dev.clock import SkippedClock, read_skipped, skipping_environment, write_skipped
from stepwell.cli.dev.feed import Feed, name_of
from stepwell.cli.dev.keys import Keys
from stepwell.cli.dev.lines import Event, Printer
from stepwell.cli.dev.outlines import step_names
from stepwell.cli.dev.places import DevSlot, Place
from stepwell.cli.dev.processes import WorkerProcess, ask_python
from stepwell.cli.dev.recovery import await_recovery, list_unfinished, retire
from stepwell.cli.dev.server import Api, address_of, can_serve, listen
from stepwell.cli.dev.worker_supervisor import WorkerSupervisor
from stepwell.cli.modules import load_app
from stepwell.cli.stop_signals import ends_unless_stopped
from stepwell.cli.texts import duration
from stepwell.clock import SECOND, Instant, Span, span, to_datetime
from stepwell.engine.views import run_view
from stepwell.errors import InvalidOptionError, StepwellError
from stepwell.wiring import Engine

_LOOK_SECONDS: Final = 1.0  # without any hint
_CALM_SECONDS: Final = 0.05  # between two looks at the database
_WATCH_SECONDS: Final = 0.25


class DevOptions(NamedTuple):
    """The options of the command line."""

    app: str
    port: int


class Supervisor:
    """One `stepwell dev`."""

    def __init__(self, options: DevOptions, place: Place, slot: DevSlot, printer: Printer) -> None:
        self._options = options
        self._place = place
        self._slot = slot
        self._printer = printer
        self._clock = SkippedClock(read_skipped(place.database))
        self._environment = skipping_environment(self._clock)
        self._store = open_store(place.url, self._environment)
        self._engine = self._make_engine(None)
        self._feed = Feed(self._store, self._printer.tell)
        self._keys = Keys(self._pressed)
        first = {"db": place.url, "name": slot.worker}
        executor = self._environment.executor
        self._worker = WorkerSupervisor(options.app, first, self._clock, executor, self._tell, self._replace_worker)
        self._acts: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._must_hurry = asyncio.Event()  # asked to end again: steps that run are not awaited
        self._api: Api | None = None
        printer.on_lost = self._over.set

    # --- lifecycle ---

    async def run(self) -> None:
        """Serve until a key or a signal ends it."""
        self._on_signals()
        async with self._engine:
            await retire(self._store, self._slot.worker)  # of an earlier supervisor that was killed with its worker
            unlisten = self._store.wakeups.listen(lambda _: self._news.set())
            try:
                await self._serve()
            finally:
                unlisten()
                self._worker.is_ending = True
                await self._worker.leave(WorkerProcess.kill)
        self._tell("stopped", f"Stopped. Everything is kept in {self._shown_db()}.")

    async def _serve(self) -> None:
        spawn = self._environment.executor.spawn
        serving = None
        listener = listen(self._options.port) if can_serve() else None
        self._slot.note({"url": address_of(listener) if listener else "", "worker": self._slot.worker})
        unfinished = await self._feed.begin()
        if not await ends_unless_stopped(self._worker.start(), self._over, self._environment.executor):
            if listener is not None:
                listener.close()
            return  # the imports of the author take long
        if listener is not None:
            self._api = Api(self._engine_with_codec(), listener)
            serving = spawn(self._api.serve(), name="stepwell-dev-api")
        self._greet([name_of(run_view(detail.run)) for detail in unfinished])
        loops = [
            spawn(self._feed_loop(), name="stepwell-dev-feed"),
            spawn(self._watch_loop(), name="stepwell-dev-files"),
            spawn(self._act_loop(), name="stepwell-dev-acts"),
        ]
        if self._has_keys:
            with self._keys.listening():
                await self._until_over(loops)
        else:
            await self._until_over(loops)
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        if self._api is not None and serving is not None:
            self._api.stop()
            await asyncio.gather(serving, return_exceptions=True)

    def _engine_with_codec(self) -> Engine:
        """The engine of the API: it must read and write values as the worker does.

        Only an app with a codec is loaded in this process, because code that is being written may do anything.
        """
        if not self._worker.code.has_codec:
            return self._engine
        try:
            return self._make_engine(load_app(self._options.app).app)
        except Exception as error:  # noqa: BLE001  an import of the application may raise anything
            self._say(f"⚠ the HTTP API has no codec: {self._options.app} cannot be loaded here: {error}")
            return self._engine

    def _make_engine(self, app: App | None) -> Engine:
        codec = reading_codec(app, self._store)
        return Engine(self._store, worker=False, environment=self._environment, codec=codec)

    async def _until_over(self, loops: list[asyncio.Task[None]]) -> None:
        """Wait for the end. A loop that raises is a bug, and ends everything."""
        for loop in loops:
            loop.add_done_callback(lambda _: self._over.set())
        await self._over.wait()
        self._printer.release()  # a question that is still open has no answer
        self._worker.is_ending = True
        for loop in loops:
            if loop.done() and not loop.cancelled() and (error := loop.exception()) is not None:
                raise error
        if self._worker.is_there:
            self._say("Stopping after the running steps. Ctrl-C stops at once.")
            stopping = self._worker.leave(WorkerProcess.stop)
            if await ends_unless_stopped(stopping, self._must_hurry, self._environment.executor):
                await self._feed.look()

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            try:
                loop.add_signal_handler(number, self._end)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._end))

    def _end(self) -> None:
        """A person wants to end this; the second time, at once."""
        if self._over.is_set():
            self._must_hurry.set()
        self._over.set()

    @property
    def _has_keys(self) -> bool:
        return not self._printer.is_json and Keys.are_there()

    def _replace_worker(self) -> None:
        self._acts.put_nowait(self._start_again)

    async def _start_again(self) -> None:
        if not self._worker.is_there:
            await self._worker.start()
            self._tell_state()

    # --- loops ---

    async def _feed_loop(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._feed.look()
            except StepwellError as error:
                self._say(f"⚠ {error.code}  {error.title}")
            await asyncio.sleep(_CALM_SECONDS)

    async def _watch_loop(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if self._worker.watch.has_changed():
                self._acts.put_nowait(self._reload)
            if read_skipped(self._place.database) > self._clock.skipped:
                self._acts.put_nowait(self._follow_clock)

    async def _act_loop(self) -> None:
        """One act at a time: a restart ends before the next key is handled."""
        while True:
            act = await self._acts.get()
            try:
                await act()
            except StepwellError as error:
                self._say(f"✕ {error.code}  {error.title}", *([f"    fix     {error.fix}"] if error.fix else []))

    # --- keys ---

    def _pressed(self, key: str) -> None:
        acts: dict[str, Callable[[], Awaitable[None]]] = {
            "c": self._crash,
            "r": self._restart,
            "t": self._ask_time,
            "f": self._ask_fault,
            "p": self._pause,
            "s": self._switch_anyway,
            "o": self._open,
            "?": self._help,
        }
        if key == "q":
            self._end()
        elif key in acts:
            self._acts.put_nowait(acts[key])
        elif key.isprintable() and not key.isspace():
            self._acts.put_nowait(self._help)

    async def _help(self) -> None:
        self._say(
            "  c  crash the worker (kill -9); it is started again",
            "  r  restart the worker, after its running steps",
            "  t  skip time",
            "  f  make the next step fail, once",
            "  p  pause or resume the worker",
            "  s  load saved code that was held back; runs that do not fit it are paused",
            "  o  open the runs in a browser",
            "  q  quit",
        )

    async def _crash(self) -> None:
        if not self._worker.is_there:
            return self._say("No worker is running; r starts one.")
        await self._worker.leave(WorkerProcess.kill)
        self._tell("crashed", "[c] crashed on purpose (kill -9). Restarting…")
        await self._feed.look()
        before = await list_unfinished(self._store)
        under_way = self._worker.bodies.crashed(before)
        await retire(self._store, self._slot.worker)
        if not await self._worker.start():
            return self._tell_state()
        recovered = await await_recovery(self._store, before, under_way, self._worker.bodies)
        await self._feed.look()
        again = [{"run_id": run_id, "path": path} for run_id, path in recovered.again]
        self._tell("recovered", recovered.words, runs=len(recovered.runs), again=again)

    async def _restart(self) -> None:
        await self._worker.leave(WorkerProcess.stop)
        self._worker.forgive()
        if await self._worker.start():
            self._tell("restarted", "[r] restarted after the running steps")
        else:
            self._tell_state()

    async def _pause(self) -> None:
        if not self._worker.is_there:
            return self._say("No worker is running; r starts one.")
        if self._worker.is_paused:
            await self._worker.resume()
            self._tell("resumed", "[p] the worker is resumed")
        elif await self._worker.halt():
            self._tell("paused", "[p] the worker is paused and runs wait; p resumes it")

    # --- time ---

    async def _ask_time(self) -> None:
        if self._place.database is None:
            return self._say("Time cannot be skipped: the database server has its own clock.")
        due = await self._next_timer()
        hint = "e.g. 3d or 12h" if due is None else f"Enter: to the next timer, in {self._ahead(due)}; or e.g. 3d"
        self._question(f"[t] skip how far? ({hint}) ", lambda text: lambda: self._skip(text, due))

    async def _next_timer(self) -> Instant | None:
        due = await self._store.views.next_wake(tuple(self._worker.code.definitions))
        return due if due is not None and due > self._store.now() else None

    def _ahead(self, due: Instant) -> str:
        return duration((due - self._store.now()) / SECOND)

    async def _skip(self, text: str, due: Instant | None) -> None:
        if not text and due is None:
            return self._say("No run waits for a time. Nothing was skipped.")
        try:
            far = Span(due - self._store.now()) if not text and due is not None else span(text, what="time to skip")
        except InvalidOptionError as error:
            return self._say(f"{error.title}. Nothing was skipped; {error.fix}.")
        others = [one.name for one in await self._engine.workers.list() if one.is_alive]
        if not await self._move_clock(Span(self._clock.skipped + max(far, Span(0)))):
            return self._say("The worker did not pause. Nothing was skipped.")
        now = to_datetime(self._clock.now())
        words = f"[t] skipped {duration(far / SECOND)}: it is {now.astimezone():%Y-%m-%d %H:%M} now"
        self._tell("skipped", words, seconds=far / SECOND, now=now.isoformat())
        if any(name != self._slot.worker for name in others):
            self._say("  The leases of other workers have expired: their running steps run again.")

    async def _move_clock(self, skipped: Span) -> bool:
        """Skip time here, in the worker and beside the database; false if the worker does not pause.

        A lease that is live on the old clock has expired on the new one, so the worker takes a new lease.
        """
        was_paused = self._worker.is_paused
        if self._worker.is_there and not await self._worker.halt():
            return False
        self._clock.skip_to(skipped)
        assert self._place.database is not None
        write_skipped(self._place.database, self._clock.skipped)
        if not was_paused:
            await self._worker.resume()
        return True

    async def _follow_clock(self) -> None:
        """Another process on this database has skipped time."""
        skipped = read_skipped(self._place.database)
        far = (skipped - self._clock.skipped) / SECOND
        if far > 0 and await self._move_clock(skipped):
            now = to_datetime(self._clock.now()).isoformat()
            self._tell("skipped", f"another stepwell dev skipped {duration(far)}", seconds=far, now=now)

    # --- faults ---

    async def _ask_fault(self) -> None:
        if not self._worker.is_there:
            return self._say("No worker is running; r starts one.")
        names = step_names(self._worker.code.outline or {})
        self._say("  0  any step", *(f"  {number}  {name}" for number, name in enumerate(names, 1)))
        self._question("[f] which step fails next? (Enter: 0) ", lambda text: lambda: self._fail(text or "0", names))

    async def _fail(self, text: str, names: list[str]) -> None:
        if text.isdecimal() and int(text) <= len(names):
            name = names[int(text) - 1] if int(text) else ""
        elif text in names:
            name = text
        else:
            return self._say(f"Unknown step {text!r}.")
        self._worker.fail_next(name)
        self._say(f"[f] {name or 'the next step'} will fail once")

    # --- code ---

    async def _reload(self) -> None:
        code = self._worker.code
        changed = reloads.changed_files(code.modules)
        if code.modules and not changed and self._worker.is_there:
            if self._worker.held is not None:
                self._worker.held = None
                self._tell("unchanged", "the files have the code that is running again")
            return
        files = changed or [self._worker.app_file]
        change = await self._examine()
        words = list(reloads.in_words(change, files))
        self._tell("changed", words[0], **reloads.facts(change, files))
        self._say(*words[1:])
        if change.is_safe:
            return await self._switch(change)
        if not code.modules:
            return None  # no code runs, so none can be kept
        self._worker.held = change
        if change.error is None:
            self._say("  Undo the change, or support both, and save; s loads it anyway and pauses these runs.")

    async def _examine(self) -> reloads.Change:
        """What the saved code would do to the runs that are unfinished now."""
        code = self._worker.code
        examined = await ask_python("stepwell.cli.dev.examinations", self._options.app, self._place.url)
        return reloads.read_change(examined, code.outline or {}, code.definitions)

    async def _switch_anyway(self) -> None:
        if self._worker.held is None:
            return self._say("No code is held back: the worker runs the saved code.")
        change = await self._examine()  # again: runs have started and ended since the code was saved
        if change.error is not None:
            return self._say("The saved code cannot be loaded; the old code keeps running.")
        await self._switch(change)

    async def _switch(self, change: reloads.Change) -> None:
        await self._worker.leave(WorkerProcess.stop)
        if await self._worker.start(is_anew=True):
            self._tell("reloaded", reloads.switched_words(change))
        else:
            self._tell_state()

    # --- words ---

    async def _open(self) -> None:
        if self._api is None:
            return self._say('The API is not installed: pip install "stepwell[server]"')
        url = f"{self._api.url}/runs"
        self._say(f"[o] {url}")
        import webbrowser

        await self._environment.executor.call_blocking(lambda: webbrowser.open(url))

    def _greet(self, unfinished: list[str]) -> None:
        code = self._worker.code
        facts: dict[str, Any] = {
            "app": self._options.app,
            "db": self._shown_db(),
            "url": self._api.url if self._api else None,
            "port_asked": self._options.port,
            "workflows": list(code.workflows),
            "sample": code.samples[0] if code.samples else None,
            "worker": self._slot.worker,
            "pid": self._worker.pid,
            "joins": self._place.neighbour(self._slot),
            "skipped_seconds": self._clock.skipped / SECOND,
            "unfinished": unfinished,
        }
        if self._printer.is_json:
            self._tell("ready", "", **facts)
        else:
            self._say(*banner(facts, has_keys=self._has_keys))
        self._tell_state()

    def _tell_state(self) -> None:
        """Report why the worker did not start; nothing if it did."""
        error = self._worker.error
        if error is not None:
            self._tell("broken", f"✕ {self._options.app} cannot be loaded; save it to try again", error=error)
            self._say(*reloads.error_lines(error))
        elif not self._worker.is_there:
            self._tell("broken", "✕ the worker did not start; r tries again")

    def _question(self, text: str, act: Callable[[str], Callable[[], Awaitable[None]]]) -> None:
        self._printer.hold()

        def answered(answer: str | None) -> None:
            self._printer.release()
            if answer is not None:
                self._acts.put_nowait(act(answer))

        self._keys.ask(text, answered)

    def _tell(self, name: str, words: str, **facts: Any) -> None:
        self._printer.tell(Event(name, words, to_datetime(self._clock.now()), facts=facts))

    def _say(self, *lines: str) -> None:
        self._printer.say(lines)

    def _shown_db(self) -> str:
        return str(self._place.database) if self._place.database is not None else spell_url(self._place.url)
