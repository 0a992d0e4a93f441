"""`stepwell export`: a run as a file, whole or without its texts."""

from __future__ import annotations

import json
from pathlib import Path

from stepwell import SyncEngine
from stepwell.check import dry, histories
from stepwell.check.dry import Fits
from stepwell.cli.modules import load_workflows
from tests.edges import shop
from tests.edges.conftest import APP, Cli, Shop


def test_a_run_is_written_into_a_file_that_can_be_replayed(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file = tmp_path / "new" / "approval.json"
    said = cli("export", "approval-1", "--db", db.url, "-o", str(file))

    assert said.code == 0
    assert said.err.endswith("0 entries, with all its values\n")
    assert dry.replay(shop.approval, histories.read(file)) == Fits(waits=("approve|reject",))


def test_without_a_file_it_is_printed(cli: Cli, db: Shop) -> None:
    said = cli("export", "checkout-1", "--db", db.url)

    assert said.json["schema"] == "stepwell.history-file/2"
    assert "reserved for ann" in said.out


def test_redacted_it_has_no_texts_and_still_fits(cli: Cli, db: Shop) -> None:
    said = cli("export", "checkout-1", "--db", db.url, "--redact", "--app", APP)

    assert said.code == 0
    assert "ann" not in said.out
    assert json.loads(said.out)["redacted"] is True
    assert isinstance(dry.replay(shop.checkout, histories.load(said.out.encode())), Fits)


def test_what_to_keep_makes_sense_only_of_what_is_redacted(cli: Cli, db: Shop) -> None:
    assert cli("export", "checkout-1", "--db", db.url, "--keep", "text").code == 2


def test_a_text_that_the_code_needs_is_named(cli: Cli, tmp_path: Path) -> None:
    app = tmp_path / "painting.py"
    app.write_text(
        "from typing import Literal\n"
        "from stepwell import Context, workflow\n\n"
        "def choose() -> Literal['red', 'blue']:\n    return 'red'\n\n"
        "@workflow\nasync def paint(ctx: Context) -> str:\n    return await ctx.step('choose', choose)\n"
    )
    url = f"sqlite:///{tmp_path}/paint.db"
    (paint,) = load_workflows(str(app))
    with SyncEngine(url, workflows=[paint]) as engine:
        assert engine.start(paint, None, key="p").result() == "red"

    refused = cli("export", "p", "--db", url, "--redact", "--app", str(app))
    kept = cli("export", "p", "--db", url, "--redact", "--keep", "choose", "--app", str(app))

    assert (refused.code, "--keep choose" in refused.err) == (2, True)
    assert kept.code == 0


def test_a_place_that_cannot_be_written_is_named(cli: Cli, db: Shop, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    said = cli("export", "checkout-1", "--db", db.url, "-o", str(tmp_path / "taken" / "x.json"))

    assert said.code == 2
    assert "SW441" in said.err


def test_an_unknown_run_is_not_found(cli: Cli, db: Shop) -> None:
    assert cli("export", "nobody", "--db", db.url).code == 4


def test_what_a_run_recorded_cannot_steer_the_terminal_it_is_printed_on(cli: Cli, tmp_path: Path) -> None:
    """And it is the same value when the file is read again."""
    odd = "\x1b]0;x\x07 \x9b2J \x7f \x85 \u2028 \u202e \ufeff end"
    url = f"sqlite:///{tmp_path}/odd.db"
    with SyncEngine(url, workflows=[shop.checkout]) as engine:
        engine.start(shop.checkout, shop.Order(odd, 1), key="odd").result()

    printed = cli("export", "odd", "--db", url)
    written = tmp_path / "odd.json"
    assert cli("export", "odd", "--db", url, "-o", str(written)).code == 0

    for text in (printed.out, written.read_text(encoding="utf-8")):
        assert [char for char in text if not char.isprintable() and char != "\n"] == []
        recording = histories.load(text.encode())
        assert json.loads(recording.run.input.removeprefix(b"j"))["customer"] == odd
