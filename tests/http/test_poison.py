"""Whoever can write the database gets no code run by the API: what is stored is shown or refused, never executed."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine, StepwellError
from stepwell.http import Tokens, app
from stepwell.http.routes import OPERATIONS
from tests.http.desk import TOKENS, WORKFLOWS, Desk, open_desk


class Gadget:
    """Unpickling it touches the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.canary,))


def poisons(canary: Path) -> list[bytes]:
    raw = pickle.dumps(Gadget(canary))
    call = f"__import__('pathlib').Path({str(canary)!r}).touch()"
    return [
        raw,
        base64.b64encode(raw),
        b"\x01" + raw,
        b'{"py/object": "pathlib.Path", "py/reduce": [{"py/function": "os.system"}, ["touch '
        + str(canary).encode()
        + b'"]]}',
        f'{{"type": "os.system", "message": {call!r}, "qualified": "os.system"}}'.encode(),
        f"!!python/object/apply:os.system ['touch {canary}']".encode(),
        call.encode(),
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ]


def columns(connection: apsw.Connection) -> list[tuple[str, str]]:
    tables = [str(name) for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
    found = []
    for table in tables:
        for row in connection.execute(f'select name, type, pk from pragma_table_info("{table}")'):
            if str(row[1]).lower() in ("blob", "text", "any", ""):
                found.append((table, str(row[0])))
    return found


async def ask_everything(desk: Desk, run_ids: list[str]) -> set[int]:
    seen = set()
    for each in OPERATIONS:
        if each.method != "GET":
            continue
        for run_id in run_ids if "{run}" in each.path else run_ids[:1]:
            path = each.path.replace("{run}", run_id).replace("{workflow}", "checkout")
            query = {"seconds": 0} if path.endswith("/changes") else {}
            answer = await desk.get(path, params=query)
            assert answer.status_code < 500 or "Traceback" not in answer.text
            seen.add(answer.status_code)
    for verb in ("cancel", "retry", "resume"):
        seen.add((await desk.post(f"/api/runs/{run_ids[0]}/{verb}")).status_code)
    return seen


PAYLOADS = {"input", "output", "failure", "value", "payload", "state", "undo"}


class Opened:
    """An API over a file that was opened already."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __aenter__(self) -> Desk:
        return Desk(self._engine, app(self._engine, access=Tokens(TOKENS)))

    async def __aexit__(self, *_: object) -> None:
        await self._engine.shutdown()


async def stack_of(url: str) -> Opened:
    return Opened(await Engine(url, workflows=WORKFLOWS, worker=False).__aenter__())


@pytest.mark.parametrize("number", range(9))
async def test_no_stored_byte_ever_runs(tmp_path: Path, number: int) -> None:
    file, canary = tmp_path / "poisoned.db", tmp_path / "canary"
    url = f"sqlite:///{file}"
    async with open_desk(url) as desk:
        done = await desk.start("checkout", {"customer": "ann", "amount": 1})
        failed = await desk.start("declined", {"customer": "ann", "amount": 1})
        waiting = await desk.start("approval")
        for run_id in (done, failed):
            await desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})
        await desk.post("/api/runs/later/signals", {"name": "n", "payload": 1, "if_missing": "hold"})
        await desk.post("/api/events", {"topic": "t", "payload": 1, "retain": "1h"})

    poison, poisoned = poisons(canary)[number], 0
    original = file.read_bytes()
    probe = apsw.Connection(str(file))
    places = columns(probe)
    probe.close()
    statuses: set[int] = set()
    # Each column by itself for the worst of them; for the others all that hold payloads at once.
    own = [place for place in places if place[0].startswith("stepwell_")]
    payloads = [place for place in own if place[1] in PAYLOADS]
    assert {column for _, column in payloads} >= {"input", "output", "failure", "value", "payload"}
    for chosen in [[place] for place in own] if number == 0 else [payloads]:
        file.write_bytes(original)
        for beside in (Path(f"{file}-wal"), Path(f"{file}-shm")):
            beside.unlink(missing_ok=True)
        connection = apsw.Connection(str(file))
        for table, column in chosen:
            try:
                connection.execute(f'update "{table}" set "{column}" = ?', (poison,))
                poisoned += connection.changes()
            except apsw.Error:
                continue  # a constraint refuses it, which is as good
        connection.close()
        try:
            opened = await stack_of(url)
        except StepwellError:
            continue  # the store itself refuses such a file
        async with opened as desk:
            statuses |= await ask_everything(desk, [done, failed, waiting])

    assert poisoned > 0
    assert statuses >= {200}
    assert not canary.exists()
