"""A recorded run under pdb: its recorded results, the lines of its code, and no effect."""

from __future__ import annotations

import io
from typing import Any

import pytest

from stepwell import Context, SyncContext, workflow
from stepwell.check.debugger import debug
from stepwell.errors import NotFoundError
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.check.recordings import begun


def shipping(ledger: Ledger) -> Any:
    @workflow(name="pay")
    async def pay(ctx: Context) -> str:
        paid = await ctx.step("charge", ledger.body("charge", "42 EUR"))
        said = await ctx.step("thank", ledger.body("thank", "thanks"))
        await ctx.receive("approve")
        return await ctx.step("ship", ledger.body("ship", f"{paid} {said}"))

    return pay


def plain_shipping(ledger: Ledger) -> Any:
    @workflow(name="pay")
    def pay(ctx: SyncContext) -> str:
        paid: str = ctx.step("charge", ledger.body("charge", "42 EUR"))
        said: str = ctx.step("thank", ledger.body("thank", "thanks"))
        ctx.receive("approve")
        return paid + said

    return pay


@pytest.mark.parametrize("make", [shipping, plain_shipping], ids=["async", "plain"])
async def test_pdb_stops_at_a_path_and_sees_the_recorded_results(harness: Harness, ledger: Ledger, make: Any) -> None:
    recording = await begun(harness, make(ledger))
    done = list(ledger.lines)
    screen = io.StringIO()

    ended = debug(make(ledger), recording, path="thank", stdin=io.StringIO("p paid\nn\np said\nc\n"), stdout=screen)

    assert "'42 EUR'" in screen.getvalue()
    assert "'thanks'" in screen.getvalue()
    assert "pay()" in screen.getvalue()
    assert ended.words == "The record ends here: the run waits at approve."
    assert ledger.lines == done


@pytest.mark.parametrize("make", [shipping, plain_shipping], ids=["async", "plain"])
async def test_without_a_path_pdb_begins_at_the_first_line(harness: Harness, ledger: Ledger, make: Any) -> None:
    recording = await begun(harness, make(ledger))
    screen = io.StringIO()

    debug(make(ledger), recording, stdin=io.StringIO("n\nn\np paid\nc\n"), stdout=screen)

    lines = screen.getvalue()
    assert lines.index('step("charge"') < lines.index('step("thank"') < lines.index("'42 EUR'")


@pytest.mark.parametrize("path", [None, "charge"])
async def test_leaving_pdb_ends_the_replay(harness: Harness, ledger: Ledger, path: str | None) -> None:
    recording = await begun(harness, shipping(ledger))

    ended = debug(shipping(ledger), recording, path=path, stdin=io.StringIO("q\n"), stdout=io.StringIO())

    assert ended.words == "The debugger was left. Nothing was executed or written."


async def test_a_path_that_the_code_does_not_reach_is_refused(harness: Harness, ledger: Ledger) -> None:
    recording = await begun(harness, shipping(ledger))

    with pytest.raises(NotFoundError, match="Did you mean 'charge'"):
        debug(shipping(ledger), recording, path="charg")


async def test_changed_code_is_told_where_it_differs(harness: Harness, ledger: Ledger) -> None:
    recording = await begun(harness, shipping(ledger))

    @workflow(name="pay")
    async def changed(ctx: Context) -> str:
        return await ctx.step("bill", ledger.body("bill", "x"))

    ended = debug(changed, recording, path="bill", stdin=io.StringIO("c\n"), stdout=io.StringIO())

    assert ended.words.startswith("The code does not fit the record:\nSW201")
