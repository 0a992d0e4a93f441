"""What must hold after a storm; each check gives one sentence per violation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from stepwell.model.states import TERMINAL, RunStatus
from stepwell.views import EntryView
from tests.system.evidence import Evidence, Found
from tests.system.repeats import check_repeats, check_zombies
from tests.system.storm_workflows import enter

EMITTING = {"work": "worked", "book": "booked"}
_UNDONE = (RunStatus.COMPENSATED, RunStatus.CANCELLED)


def violations(evidence: Evidence) -> dict[str, list[str]]:
    """Every violation, by the promise that it breaks."""
    checks = {
        "lost acks": [
            *check_starts(evidence),
            *check_results(evidence),
            *check_cancels(evidence),
            *check_signals(evidence),
        ],
        "double commits": [
            *evidence.observed.changed,
            *check_histories(evidence),
            *check_values(evidence),
            *check_effects(evidence),
        ],
        "unfinished": check_ends(evidence),
        "bad effects": [*check_given(evidence), *check_keys(evidence)],
        "bad undos": check_undos(evidence),
        "unexplained repeats": check_repeats(evidence),
        "zombies": check_zombies(evidence),
        "bad events": [*check_events(evidence), *(f"{text} was never sent" for text in evidence.owed)],
        "orphans": [f"run {run_id} has nothing that would move it" for run_id in evidence.orphans],
    }
    return {name: list(found) for name, found in checks.items()}


def check_starts(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged start exists, and a key means one run."""
    by_key: defaultdict[str, set[str]] = defaultdict(set)
    for line in evidence.of("started"):
        by_key[line.facts["key"]].add(line.facts["run"])
        if line.facts["run"] not in evidence.runs:
            yield f"start of {line.facts['run']} was acknowledged, and it does not exist"
    for key, runs in by_key.items():
        if len(runs) > 1:
            yield f"key {key} was given to {len(runs)} runs"


def check_results(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged result is the stored one; so, all that were told of one run are equal."""
    for line in evidence.of("result"):
        last = evidence.last_of_chain(line.facts["run"])
        if last is None or last.status is not RunStatus.COMPLETED or last.output != line.facts["value"]:
            stored = None if last is None else (last.status.value, last.output)
            yield f"run {line.facts['run']}: result {line.facts['value']} was acknowledged, stored is {stored}"
    for line in evidence.of("ended"):
        last = evidence.last_of_chain(line.facts["run"])
        if last is None or last.status.value != line.facts["status"]:
            yield f"run {line.facts['run']}: end {line.facts['status']} was acknowledged, and is not stored"


def check_cancels(evidence: Evidence) -> Iterator[str]:
    """A cancel that won is how the run ended."""
    for line in evidence.of("cancelled"):
        last = evidence.last_of_chain(line.facts["run"])
        if last is None or last.status is not RunStatus.CANCELLED:
            yield f"run {line.facts['run']}: cancel was acknowledged, it is {last and last.status.value}"


def check_signals(evidence: Evidence) -> Iterator[str]:
    """Every acknowledged signal was consumed once, or is still pending; nobody consumed one that was never sent."""
    consumed = Counter(
        str(payload)
        for found in evidence.runs.values()
        for entry in found.entries
        if entry.kind == "receive" and entry.status == "done"
        for _, payload in entry.value
    )
    pending = Counter(
        signal.payload[1:].decode().strip('"') for found in evidence.runs.values() for signal in found.detail.signals
    )
    for line in evidence.of("signalled"):
        payload = line.facts["payload"]
        places = (consumed[payload], pending[payload])
        if places not in ((1, 0), (0, 1)):
            yield f"signal {payload} to {line.facts['run']}: consumed {places[0]} times, pending {places[1]} times"
    for payload, times in consumed.items():
        if times > 1:
            yield f"signal {payload} was consumed {times} times"


def check_histories(evidence: Evidence) -> Iterator[str]:
    """One entry per path, numbered without a gap (but for what a loop has trimmed)."""
    for run_id, found in evidence.runs.items():
        paths = Counter(entry.path for entry in found.entries)
        for path, times in paths.items():
            if times > 1:
                yield f"run {run_id} has {times} results at {path}"
        numbers = [entry.seq for entry in found.entries]
        last = found.detail.run.last_seq
        if found.detail.run.workflow == "ticker":
            if numbers != sorted(set(numbers)) or (numbers and numbers[-1] > last):
                yield f"run {run_id} is numbered {numbers}, the last being {last}"
        elif numbers != list(range(1, last + 1)):
            yield f"run {run_id} is numbered {numbers}, the last being {last}"


def check_values(evidence: Evidence) -> Iterator[str]:
    """A stored value is one that a body of that very step gave; what was returned is made of stored values."""
    made: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for execution in evidence.executions:
        if execution.ended is not None:
            made[execution.run, execution.path].add(execution.value)
    known = evidence.recorded | {line.facts["payload"] for line in evidence.of("signalled")}
    for run_id, found in evidence.runs.items():
        for entry in found.entries:
            is_value = entry.kind == "step" and entry.status == "done" and not _is_transactional(entry)
            if is_value and entry.value not in made[run_id, entry.path]:
                yield f"run {run_id}: no body at {entry.path} gave the stored {entry.value}"
            if entry.kind == "undo" and not made[run_id, entry.path]:
                yield f"run {run_id}: the undo at {entry.path} is recorded, and no body of it has ended"
        for value in found.output or ():
            # A signal that was sent and whose sender died before it could note that is no ack, but may be consumed.
            if value not in known and not str(value).startswith("s"):
                yield f"run {run_id} returned {value}, which is no result of any step"


def check_effects(evidence: Evidence) -> Iterator[str]:
    """Every row that a transactional step wrote belongs to a recorded result, and every such result has one row."""
    rows = Counter(evidence.effects)
    recorded = Counter(
        (run_id, str(entry.value))
        for run_id, found in evidence.runs.items()
        for entry in found.entries
        if entry.status == "done" and _is_transactional(entry)
    )
    for effect in rows.keys() | recorded.keys():
        if rows[effect] != recorded[effect]:
            yield f"run {effect[0]}: {effect[1]} has {rows[effect]} rows and {recorded[effect]} results"


def check_ends(evidence: Evidence) -> Iterator[str]:
    """Everything ended, and as planned."""
    planned = TERMINAL - {RunStatus.FAILED}
    for run_id, found in evidence.runs.items():
        if found.status not in planned:
            yield f"run {run_id} ({found.detail.run.workflow}) is {found.status.value}"


def check_given(evidence: Evidence) -> Iterator[str]:
    """No body ever began with a value that was not durable: not even one of a worker that died or was fenced."""
    known = evidence.recorded | {""}
    given: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for execution in evidence.executions:
        given[execution.run, execution.path].add(execution.given)
        is_trimmed = "ticks/" in execution.path
        if execution.given not in known and not is_trimmed:
            yield f"run {execution.run}: {execution.path} began with {execution.given}, which was never committed"
    for (run_id, path), values in given.items():
        if len(values) > 1:
            yield f"run {run_id}: {path} began with different values: {sorted(values)}"


def check_keys(evidence: Evidence) -> Iterator[str]:
    """An idempotency key belongs to one step of one run, and stays the same."""
    by_step: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for execution in evidence.executions:
        by_step[execution.run, execution.path].add(execution.key)
    for (run_id, path), keys in by_step.items():
        if len(keys) > 1:
            yield f"run {run_id}: {path} was given {len(keys)} keys"
    if len(set().union(*by_step.values())) != len(by_step):
        yield "two steps share an idempotency key"


def check_undos(evidence: Evidence) -> Iterator[str]:
    """Compensations: all or none, once each, last committed first, in the record and in the order of their effects."""
    began: defaultdict[str, list[str]] = defaultdict(list)
    for execution in evidence.executions:
        if execution.path.endswith("~undo") and execution.path not in began[execution.run]:
            began[execution.run].append(execution.path)
    for run_id, found in evidence.runs.items():
        yield from _check_undo(run_id, found, began[run_id])


def _check_undo(run_id: str, found: Found, began: list[str]) -> Iterator[str]:
    forward = [entry.path for entry in found.entries if entry.can_undo]
    undone = [entry.path for entry in found.entries if entry.kind == "undo"]
    expected = [f"{path}~undo" for path in reversed(forward)] if found.status in _UNDONE else []
    if undone != expected:
        yield f"run {run_id} ({found.status.value}) undid {undone}, not {expected}"
    if began != expected:
        yield f"run {run_id} ({found.status.value}) began to undo {began}, not {expected}"


def check_events(evidence: Evidence) -> Iterator[str]:
    """Every recorded step that emits was told, in order, with one id; so was every end but of a run that continues."""
    told: defaultdict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for line in evidence.of("event"):
        event = (line.facts["name"], line.facts["value"])
        if told[line.facts["run"]].setdefault(line.facts["id"], event) != event:
            yield f"run {line.facts['run']}: event {line.facts['id']} came as {event} and as something else"
    for run_id, found in evidence.runs.items():
        events = list(told[run_id].values())
        expected = [(EMITTING[name], str(entry.value)) for entry in found.entries if (name := _emits(entry))]
        if found.status is not RunStatus.CONTINUED:
            expected.append((f"stepwell.run.{found.status.value}", ""))
        if found.detail.run.workflow == "ticker":
            events = [event for event in events if event in expected]  # the others are of trimmed entries
        if events != expected:
            yield f"run {run_id} ({found.detail.run.workflow}) told {events}, not {expected}"


def _is_transactional(entry: EntryView) -> bool:
    """Such a body may be run several times in the hands of the store: the rows count, not the runs."""
    return entry.kind == "step" and entry.path.partition("#")[0] == enter.name


def _emits(entry: EntryView) -> str:
    name = entry.path.rpartition("/")[2].partition("#")[0]
    return name if entry.kind == "step" and entry.status == "done" and name in EMITTING else ""
