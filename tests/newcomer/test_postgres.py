"""`stepwell dev` on a database server: the same lines and keys, but for the clock, which is the server's."""

from __future__ import annotations

from tests.newcomer.conftest import Ground
from tests.newcomer.test_first_five_minutes import START


def test_a_run_on_postgres_survives_a_kill_and_its_time_cannot_be_skipped(hello: Ground, postgres_url: str) -> None:
    hello.env["STEPWELL_DB"] = postgres_url
    with hello.terminal("stepwell", "dev") as screen:
        screen.expect("q to quit")
        hello.run(*START, "order-1")
        screen.expect("‖ approval")

        screen.type("c")
        screen.expect(r"recovered 1 run · order-1 continues at approval · 0 steps were run again")
        screen.type("t")
        screen.expect("Time cannot be skipped: the database server has its own clock")

        hello.run("stepwell", "signal", "order-1", "approve")
        screen.expect(r"✓ run order-1 completed")
        screen.type("q")
        assert screen.end() == 0
    assert not list((hello.folder / "hello" / ".stepwell").glob("*.db"))
