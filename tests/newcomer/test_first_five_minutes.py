"""The first five minutes, as a newcomer has them: a clean home, an empty folder, a real terminal, real processes."""

from __future__ import annotations

import re

from tests.newcomer.conftest import Ground, until

START = ("stepwell", "start", "order_fulfilment", "customer=ann", "amount:=42", "--key")


def test_from_an_empty_folder_to_a_run_that_survived_a_kill_and_three_days(ground: Ground) -> None:
    made = ground.run("stepwell", "new", "hello", within=".")
    assert made.stdout.splitlines()[0] == "Created hello/"
    assert made.stdout.splitlines()[-1] == "Next:  cd hello && stepwell dev"

    with ground.terminal("stepwell", "dev") as screen:
        screen.expect(r"Try:  stepwell start order_fulfilment customer=ann amount:=42\s")
        screen.expect("q to quit")

        # It runs: started from another process that finds the database by itself.
        started = ground.run(*START, "order-1")
        assert started.returncode == 0, started.stderr
        assert started.stderr == ""
        screen.expect(r"run order-1 started  order_fulfilment")
        screen.expect(r"✓ reserve_stock +\d\.\d\d s")
        screen.expect(r"✓ charge_card +\d\.\d\d s")
        screen.expect(r"‖ approval +waiting for signal 'approve'")

        # It survives a kill, and nothing runs twice.
        screen.type("c")
        screen.expect(r"crashed on purpose \(kill -9\)")
        screen.expect(r"recovered 1 run · order-1 continues at approval · 0 steps were run again")

        # Time can be skipped: the reminder goes out.
        screen.type("t")
        screen.expect(r"skip how far\? \(Enter: to the next timer, in [23] d")
        screen.type("\r")
        screen.expect(r"skipped 2 d 23 h|skipped 3 d")
        screen.expect(r"● approval +\d\.\d\d s  timed out; nothing arrived")
        screen.expect(r"✓ send_reminder")
        screen.expect(r"‖ last_chance")
        assert ground.run("stepwell", "why", "order-1").stdout.count("last_chance")

        # It ends.
        assert ground.run("stepwell", "signal", "order-1", "approve").returncode == 0
        screen.expect(r"✓ ship")
        screen.expect(r"✓ run order-1 completed")
        screen.type("q")
        assert screen.end() == 0

    tested = ground.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "4 passed" in tested.stdout, tested.stdout
    shown = ground.run("stepwell", "result", "order-1")
    assert "parcel for ann" in shown.stdout


def test_a_step_that_was_under_way_is_counted_when_it_runs_again(hello: Ground) -> None:
    hello.edit(lambda text: text.replace("asyncio.sleep(0.5)", "asyncio.sleep(3)"))
    opened = hello.browser()
    with hello.terminal("stepwell", "dev", "--ascii", "--no-open") as screen:
        screen.expect(r"o opens it\)")
        screen.expect("q to quit")
        hello.run(*START, "order-1")
        screen.expect(r"\+ reserve_stock")

        screen.type("c")

        screen.expect(r"recovered 1 run - order-1 continues at charge_card - 1 step was run again \(charge_card:")
        screen.type("q")
        screen.expect("Stopping")
        screen.type("\x03")  # does not wait for the step
        assert screen.end() == 0
        assert "✓" not in screen.text
        assert "·" not in screen.text
    assert opened() == []


def test_a_step_fails_when_it_is_asked_to_and_a_paused_worker_takes_nothing(hello: Ground) -> None:
    hello.env["NO_COLOR"] = "1"
    opened = hello.browser()
    with hello.terminal("stepwell", "dev") as screen:
        screen.expect(r"Dashboard +http://127\.0\.0\.1:\d+  \(.*opened in your browser; --no-open to stop that\)")
        screen.expect("q to quit")
        until(lambda: len(opened()) == 1)
        screen.type("p")
        screen.expect("the worker is paused")
        hello.run(*START, "order-1", "--app", "app.py")  # no worker says which workflows there are
        screen.expect("run order-1 started")
        screen.type("f")
        screen.expect(r"2  charge_card")
        screen.expect("which step fails next")
        screen.type("9\x7f2\n")
        screen.expect("charge_card will fail once")
        assert "reserve_stock  " not in hello.run("stepwell", "history", "order-1").stdout

        screen.type("p")

        screen.expect(r"✓ reserve_stock")
        screen.expect(r"↻ charge_card +attempt 1 failed: FailedOnPurpose")
        screen.expect(r"✓ charge_card")
        assert screen.text.count("charge_card fails now, once, on purpose") == 1
        screen.type("x")
        screen.expect("q  quit")
        screen.type("o")
        screen.expect(r"\[o\] http://127\.0\.0\.1:\d+")
        until(lambda: len(opened()) == 2)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", opened()[1])
        screen.type("r")
        screen.expect("restarted")
        screen.type("t")
        screen.expect(r"skip how far.*\) ")
        screen.type("\x1b")  # thought better of it
        screen.expect("\n")
        screen.type("q")
        assert screen.end() == 0
        assert "\x1b[" not in screen.raw
