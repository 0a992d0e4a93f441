"""`stepwell trigger`, `stepwell view`, and what doctor says of triggers and services."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell import Engine, Trigger
from stepwell.engine.records import RecordKind, Records
from stepwell.engine.saved_views import COLUMNS
from stepwell.engine.service_failures import ServiceFailures
from stepwell.engine.trigger_records import KEPT, TriggerBody, declared, expired
from stepwell.model.records import NewRecord, NewRecordEvent, RecordChange
from tests.edges import shop
from tests.edges.conftest import Cli, Shop

TRIGGERS = [
    Trigger("ordered", start=shop.checkout, key="{customer}-1", name="orders"),
    Trigger("refused", start=shop.declined, input={"customer": "who", "amount": 1}, name="refusals"),
]


def declare(db: Shop) -> None:
    """A worker that has triggers was here."""

    async def live() -> None:
        async with Engine(db.url, workflows=[shop.checkout, shop.declined], triggers=TRIGGERS):
            pass

    asyncio.run(live())


def test_a_published_event_starts_what_a_worker_declared_before(cli: Cli, db: Shop) -> None:
    declare(db)
    ask = ("--db", db.url)

    assert cli("publish", "ordered", "customer=bo", "amount:=2", "--event-id", "e1", *ask).code == 0
    assert cli("publish", "ordered", "customer=bo", "amount:=2", "--event-id", "e1", *ask).code == 0
    [run] = cli("ls", "-q", "key:bo-1", "-o", "json", *ask).json["runs"]
    assert (run["workflow"], run["status"], run["input"]) == ("checkout", "pending", {"customer": "bo", "amount": 2})
    assert cli("publish", "ordered", "amount:=2", *ask).code == 0

    listed = cli("trigger", "ls", *ask).out.splitlines()
    assert [line.split("\t")[:5] for line in listed[1:]] == [
        ["refusals", "active", "refused", "declined v1", ""],
        ["orders", "active", "ordered", "checkout v1", "{customer}-1"],
    ]
    assert listed[2].endswith("the event has no `customer`")
    paused = [cli("trigger", "pause", "orders", "--reason", "a look", "--by", "ann", *ask).out for _ in range(2)]
    assert paused == ["Trigger orders is paused\n", "Trigger orders was already paused\n"]
    assert cli("trigger", "ls", "--state", "paused", "-o", "json", *ask).json["triggers"][0]["by"] == "ann"
    cli("publish", "ordered", "customer=cy", "amount:=2", *ask)
    assert cli("ls", "-q", "key:cy-1", "-o", "ids", *ask).out == ""

    shown = cli("trigger", "show", "orders", *ask).out
    assert "why       by ann: a look" in shown
    assert "starts    checkout v1" in shown
    assert "UTC  paused by ann: a look" in shown
    body = cli("trigger", "show", "refusals", "-o", "json", *ask).json
    assert (body["schema"], body["input"], body["acts"][0]["verb"]) == (
        "stepwell.trigger/1",
        {"customer": "who", "amount": 1},
        "declared",
    )
    assert cli("trigger", "resume", "orders", *ask).out == "Trigger orders is resumed\n"
    assert cli("trigger", "delete", "orders", *ask).code == 0
    missing = cli("trigger", "show", "refusal", *ask)
    assert (missing.code, "Did you mean 'refusals'?" in missing.err) == (4, True)


def test_doctor_names_triggers_and_services_that_need_a_person(cli: Cli, db: Shop) -> None:
    declare(db)
    ask = ("--db", db.url)
    cli("publish", "ordered", "amount:=2", *ask)
    cli("trigger", "pause", "orders", "--reason", "a look", *ask)

    async def break_things() -> None:
        async with Engine(db.url) as engine:
            backend = engine._backend
            records = Records(backend, RecordKind.TRIGGER, TriggerBody)
            old = TriggerBody("tick", "old", 1, True, False, None, None, 0, engine.now() - KEPT - 1)
            await records.change("old", lambda it: declared(old, it))
            await records.change("old", lambda it: expired(1, it))
            failures = ServiceFailures(backend)
            await failures.note("triggers", "1", "alpha", RuntimeError("the disk is full"), 3)
            broken = NewRecord(RecordKind.TRIGGER, "odd", "active", b"?")
            await backend.store.records.change([RecordChange("c", 0, broken, (NewRecordEvent("broken"),))])

    asyncio.run(break_things())
    found: dict[str, Any] = {one["check"]: one for one in cli("doctor", "-o", "json", *ask).json["findings"]}
    checks = ("triggers", "trigger errors", "paused triggers", "unreadable triggers", "services")
    told = {name: (found[name]["found"], found[name]["fix"]) for name in checks}
    event = cli("trigger", "show", "orders", "-o", "json", *ask).json["failure"]["event_id"]
    assert told == {
        "triggers": (
            "1 trigger starts nothing, such as old: no live worker has declared it for a day",
            "stepwell trigger delete old",
        ),
        "trigger errors": (
            f"1 trigger got an event that did not fit, such as orders: event {event}: the event has no `customer`",
            "stepwell trigger show orders",
        ),
        "paused triggers": ("1 trigger is paused, such as orders: a look", "stepwell trigger resume orders"),
        "unreadable triggers": (
            "1 trigger cannot be read here, such as odd:"
            " the body of `trigger odd` cannot be read back: it is not in a known format",
            "stepwell trigger show odd",
        ),
        "services": (
            "1 service fails, such as 'triggers' on worker alpha (3 times in a row): RuntimeError: the disk is full",
            "read the log of that worker",
        ),
    }


def test_a_view_is_saved_listed_used_and_deleted(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url)
    saved = cli("view", "save", "bad ones", "status:failed,paused", "-c", "key,status,tags", "--sort", "created", *ask)
    assert saved.out == "Saved: stepwell ls --view 'bad ones'\n"
    cli("view", "save", "done", "status:completed", "--shared", "--by", "ann", *ask)

    assert cli("ls", "--view", "bad ones", *ask).out.splitlines() == [
        "KEY\tSTATUS\tTAGS",
        "declined-1\t✕ failed\t",
        "confused-1\t⚠ paused\t",
    ]
    narrowed = cli("ls", "--view", "bad ones", "-w", "declined", "-o", "json", *ask).json["runs"]
    assert [run["key"] for run in narrowed] == ["declined-1"]
    assert [run["key"] for run in cli("ls", "--view", "done", "-o", "json", *ask).json["runs"]] == ["checkout-1"]
    assert cli("view", "ls", "--by", "bo", "--fields", "name,owner", "-o", "json", *ask).json["views"] == [
        {"name": "done", "owner": None}
    ]
    columns = ",".join([*COLUMNS, "attr.amount"])
    cli("view", "save", "wide", "key:paid-1", "--columns", columns, "--sort", "-attr.amount", *ask)
    options = ["--attr", "amount:=42.10", "--title", "For Ann", "--by", "ann"]
    cli("start", "checkout", "customer=eve", "amount:=9", "--key", "paid-1", *options, *ask)
    header, row = (line.split("\t") for line in cli("ls", "--view", "wide", *ask).out.splitlines())
    shown = dict(zip(header, row, strict=True))
    assert len(shown) == len(COLUMNS) + 1
    wanted = ("For Ann", "ann", "amount=42.10", "42.10")
    assert tuple(shown[name] for name in ("TITLE", "STARTED BY", "ATTRIBUTES", "AMOUNT")) == wanted
    assert "columns  those of ls" in cli("view", "show", "done", *ask).out
    wrong = cli("view", "save", "x", "statsu:failed", *ask)
    assert (wrong.code, "unknown" in wrong.err or "no field" in wrong.err) == (2, True)
    assert cli("view", "delete", "done", *ask).code == 4
    assert cli("view", "delete", "done", "--shared", *ask).code == 0
    assert cli("ls", "--view", "done", *ask).code == 4
