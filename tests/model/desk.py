"""The workflow that the model knows, and the model: the same story without a store, a worker or a clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell import Context, Fatal, Retry, step, workflow

TIMEOUT = 3_600  # seconds that a run waits for the next note
REST = 600  # seconds that it rests at the end
NOTE = "note"

booked: list[str] = []  # names whose booking stands, in the world outside


def undo_booking(name: str) -> None:
    booked.remove(name)


@step(compensate=undo_booking)
async def book(name: str) -> str:
    booked.append(name)
    return name


@step(retry=Retry(max_attempts=1))
async def refuse(name: str) -> None:
    raise Fatal("refused")


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is to do."""

    name: str
    notes: int = 0  # that it waits for
    is_refused: bool = False


@workflow
async def desk(ctx: Context, job: Job) -> list[str]:
    await ctx.step(book, job.name)
    notes: list[str] = []
    while len(notes) < job.notes:
        message = await ctx.receive(NOTE, timeout=TIMEOUT)
        notes.append(message.payload)
    await ctx.sleep("rest", REST)
    if job.is_refused:
        await ctx.step(refuse, job.name)
    return notes


@dataclass(slots=True)
class ModelRun:
    """One run, as it must be."""

    job: Job
    key: str
    due: float = 0.0  # when its timeout or its rest is over
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # came while it was paused
    known: set[str] = field(default_factory=set)  # dedup keys
    status: str = "waiting"
    ended: float | None = None
    is_paused: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it goes on."""
        return self.ended is None

    @property
    def shown(self) -> str:
        """The status that everybody sees."""
        return "paused" if self.is_paused else self.status

    @property
    def is_booked(self) -> bool:
        """Whether its booking stands in the world outside."""
        return self.is_active or self.status == "completed"


class ModelDesk:
    """All runs, and what may be done to them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs: dict[str, ModelRun] = {}

    def start(self, run_id: str, job: Job, key: str) -> None:
        """A new run."""
        run = self.runs[run_id] = ModelRun(job, key)
        self._wait(run)

    def of_key(self, key: str, dedup: float) -> str | None:
        """Which run answers a start with this key."""
        found = [run_id for run_id, run in self.runs.items() if run.key == key]
        newest = found[-1] if found else None
        if newest is None or self.runs[newest].is_active:
            return newest
        ended = self.runs[newest].ended
        return newest if ended is not None and self.now < ended + dedup else None

    def note(self, run_id: str, payload: str) -> None:
        """A signal arrives."""
        run = self.runs[run_id]
        if len(run.notes) < run.job.notes and not run.is_paused:
            run.notes.append(payload)
            self._wait(run)
        else:
            run.unread.append(payload)

    def cancel(self, run_id: str) -> bool:
        """Whether that does anything."""
        run = self.runs[run_id]
        if not run.is_active:
            return False
        self._end(run, "cancelled")
        return True

    def pause(self, run_id: str) -> bool:
        """Whether that does anything."""
        run = self.runs[run_id]
        if not run.is_active or run.is_paused:
            return False
        run.is_paused = True
        return True

    def resume(self, run_id: str) -> bool:
        """Whether that does anything. What came meanwhile is read first, and then the clock."""
        run = self.runs[run_id]
        if not run.is_paused:
            return False
        run.is_paused = False
        while run.unread and len(run.notes) < run.job.notes:
            run.notes.append(run.unread.pop(0))
            self._wait(run)
        run.due = max(run.due, self.now)  # what fell due while it was paused happens now
        self._pass(run)
        return True

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        for run in self.runs.values():
            self._pass(run)

    def _wait(self, run: ModelRun) -> None:
        run.due = self.now + (TIMEOUT if len(run.notes) < run.job.notes else REST)

    def _pass(self, run: ModelRun) -> None:
        if not run.is_active or run.is_paused or run.due > self.now:
            return
        has_all = len(run.notes) == run.job.notes
        self._end(run, "completed" if has_all and not run.job.is_refused else "compensated", at=run.due)

    def _end(self, run: ModelRun, status: str, at: float | None = None) -> None:
        run.status, run.is_paused = status, False
        run.ended = self.now if at is None else at
