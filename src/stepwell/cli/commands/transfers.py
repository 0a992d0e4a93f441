"""`stepwell move`: move all runs from one database to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

import click

from stepwell.addresses import file_of, is_shared
from stepwell.cli.bars import Bars
from stepwell.cli.client import check_exists
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean
from stepwell.errors import InvalidOptionError, StepwellError, StoreError, StoreUnavailableError, TransferError
from stepwell.urls import split_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.app import App
    from stepwell.engine.transfers import Moved, Side
    from stepwell.environment import Environment


@command("move")
@click.argument("src")
@click.argument("dst")
@click.option("--keep-source-open", is_flag=True, help="Rehearse: copy and verify, and keep using SRC.")
@click.option("--undo", is_flag=True, help="Undo a move that was interrupted: open SRC again, and empty DST.")
def move(settings: Settings, src: str, dst: str, keep_source_open: bool, undo: bool) -> None:
    """Move all runs and everything that belongs to them from database SRC to the new database DST.

    Stop the workers first. SRC is closed, everything is copied and compared, and with --app every unfinished run is
    replayed from DST without executing a step. Only then is SRC closed permanently, and DST opened. After an
    interruption, the same command continues.

    \b
    Example:
      stepwell move sqlite:///shop.db postgresql://shop@db.example/shop --app orders.py
    """
    import asyncio

    check_exists(src)
    _check_different(src, dst)
    out = Output(settings)
    if undo:
        _show_undone(out, src, dst, asyncio.run(_undo(out, src, dst)))
        return
    loaded = settings.load()
    app = None if loaded is None else loaded.app
    try:
        with Bars(out) as bars:
            moved = asyncio.run(_move(bars, src, dst, app, keep_source_open))
    except (StoreUnavailableError, KeyboardInterrupt):
        out.note("The move is not finished, and nothing is lost: the same command continues it, and --undo undoes it.")
        raise
    _show_moved(out, src, dst, moved)


async def _move(bars: Bars, src: str, dst: str, app: App | None, keep_source_open: bool) -> Moved:
    from stepwell.app import reading_codec
    from stepwell.engine.transfers import Code, Move
    from stepwell.environment import system_environment
    from stepwell.replay.registry import Registry

    environment = system_environment()
    source = await _open(src, environment)
    try:
        destination = await _open(dst, environment)
        try:
            code = None
            if app is not None:
                threads = environment.executor.lockstep_threads
                code = Code(Registry(app.workflows), reading_codec(app, destination.store), threads)
            new_id = environment.ids.uuid()
            running = Move(source, destination, new_id=new_id, code=code, tell=bars.tell)
            return await running.run(keep_source_open=keep_source_open)
        finally:
            await destination.store.close()
    finally:
        await source.store.close()
        environment.executor.close()


async def _undo(out: Output, src: str, dst: str) -> bool:
    """Undo a move. The source is opened even if the destination is gone or out of reach."""
    from stepwell.engine.transfers import undo
    from stepwell.environment import system_environment

    environment = system_environment()
    source = await _open(src, environment)
    try:
        destination: Side | None = None
        file = file_of(dst)
        if file is None or file.exists():
            try:
                destination = await _open(dst, environment)
            except StoreError as error:
                out.note(f"DST was not changed: {error.title}")
        try:
            return await undo(source, destination)
        finally:
            if destination is not None:
                await destination.store.close()
    finally:
        await source.store.close()
        environment.executor.close()


async def _open(url: str, environment: Environment) -> Side:
    from stepwell.addresses import open_store
    from stepwell.engine.transfers import Side

    store = open_store(url, environment)
    if not store.capabilities.survives_restart:
        raise InvalidOptionError(
            f"{url} exists only in the memory of one process", fix="name two databases, such as sqlite:///shop.db"
        )
    await store.open()
    return Side(store, address(url))


def address(url: str) -> str:
    """The database of a URL in a form to show and store: with its whole path, and without a password."""
    file = file_of(url)
    if file is not None:
        return f"sqlite:///{quote(str(file.resolve()))}{'?shared=1' if is_shared(url) else ''}"
    parts = split_url(url)
    if parts is None:
        return url
    login, _, host = parts.authority.rpartition("@")
    user = login.partition(":")[0]
    options = [(name, value) for name, value in parse_qsl(parts.query) if "pass" not in name.lower()]
    query = urlencode([(name, address(value) if "://" in value else value) for name, value in options])
    shown = f"{parts.scheme}://{user}{'@' if user else ''}{host}{parts.path}"
    return f"{shown}?{query}" if query else shown


def _check_different(src: str, dst: str) -> None:
    if address(src) == address(dst) or _is_same_file(file_of(src), file_of(dst)):
        raise TransferError(
            "the source and the destination are the same database", where=address(src), fix="move into a new database"
        )


def _is_same_file(one: Path | None, other: Path | None) -> bool:
    return one is not None and other is not None and other.exists() and one.samefile(other)


def _show_moved(out: Output, src: str, dst: str, moved: Moved) -> None:
    manifest, open_one = moved.manifest, address(src if moved.is_source_open else dst)
    body = {
        "from": address(src),
        "to": address(dst),
        "open": open_one,
        **manifest._asdict(),
        "replayed": moved.replayed,
        "stopped": [{"run_id": one.run_id, **_facts(one.error)} for one in moved.stopped],
    }

    def words() -> Iterator[str]:
        verb = "Copied" if moved.is_source_open else "Moved"
        yield clean(f"{verb} {manifest.runs} runs, {manifest.active} of them active, to {address(dst)}")
        yield f"Compared: all {manifest.items} parts are the same."
        if moved.replayed or moved.stopped:
            yield f"Replayed: {moved.replayed} active runs can continue with this code."
        for one in moved.stopped:
            yield clean(f"Paused, as before: {one.run_id} ({one.status.value}): {one.error.title}")
        if moved.is_source_open:
            yield clean(f"{open_one} is open again. The copy stays closed.")
        else:
            yield clean(f"{address(src)} is closed permanently. Workers: stepwell --db {open_one} worker MODULE")

    out.one("stepwell.move/1", body, run_ids=[], words=words)


def _facts(error: StepwellError) -> dict[str, str]:
    return {"code": error.code, "message": error.title, "where": error.where}


def _show_undone(out: Output, src: str, dst: str, was_there: bool) -> None:
    body = {"from": address(src), "to": address(dst), "open": address(src), "changed": was_there}
    words = "Move undone" if was_there else "No move to undo"
    out.one("stepwell.move-undo/1", body, run_ids=[], words=lambda: [clean(f"{words}: {address(src)} is open.")])
