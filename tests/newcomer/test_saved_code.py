"""Code that is saved while runs wait: looked at first, loaded if nobody is broken by it."""

from __future__ import annotations

from typing import Any

from tests.newcomer.conftest import Ground
from tests.newcomer.test_first_five_minutes import START


def renamed(text: str) -> str:
    return text.replace("charge_card", "take_money")


def restored(text: str) -> str:
    return text.replace("take_money", "charge_card")


def test_a_change_that_would_break_a_run_is_held_back_until_somebody_insists(hello: Ground) -> None:
    with hello.terminal("stepwell", "dev") as screen:
        screen.expect("q to quit")
        hello.run(*START, "order-1")
        screen.expect("‖ approval")

        hello.edit(renamed)
        screen.expect(r"app\.py changed: step charge_card → take_money \(renamed\)")
        screen.expect(r"✕ this change would break 1 unfinished run; the old code keeps running")
        screen.expect(r"run order-1  order_fulfilment@1  waiting  SW201")

        # The old code keeps running even in a new process, although the files have changed.
        screen.type("c")
        screen.expect(r"recovered 1 run · order-1 continues at approval · 0 steps were run again")
        hello.run(*START, "order-2")
        screen.expect(r"✓ charge_card")
        screen.expect("‖ approval")

        screen.type("s")
        screen.expect(r"reloaded; 0 unfinished runs fit the new code; 2 do not, and will be paused until code fits")
        hello.run("stepwell", "signal", "order-1", "approve")
        screen.expect(r"⚠ run order-1 paused")

        hello.edit(restored)
        screen.expect(r"reloaded; \d unfinished runs? fits? the new code|reloaded; 2")
        screen.expect(r"✓ run order-1 completed")
        screen.type("q")
        assert screen.end() == 0


def test_code_that_cannot_be_loaded_is_shown_and_the_old_code_goes_on(hello: Ground) -> None:
    with hello.dev() as dev:
        dev.expect("ready")

        hello.edit(lambda text: text + "\ndef broken(:\n")
        error: dict[str, Any] = dev.expect("changed")["error"]
        assert error["code"] == "SW103"
        assert "SyntaxError" in error["message"]
        lines = (hello.folder / "hello" / "app.py").read_text(encoding="utf-8").count("\n")
        assert error["where"].endswith(f"app.py:{lines}")
        hello.run(*START, "order-1")
        dev.expect("waiting", path="approval")

        hello.edit(lambda text: text.replace("\ndef broken(:\n", ""))
        dev.expect("unchanged")
        hello.edit(lambda text: text.replace('f"parcel for', 'f"a box for'))
        assert dev.expect("changed")["is_safe"]
        dev.expect("reloaded")
        hello.run("stepwell", "signal", "order-1", "approve")
        assert dev.expect("run", status="completed")["output"] == "a box for ann"


def test_a_project_that_is_broken_from_the_start_begins_when_it_is_mended(hello: Ground) -> None:
    hello.edit(lambda text: text + "\nimport nothing_of_that_name\n")
    with hello.dev() as dev:
        assert dev.expect("ready")["workflows"] == []
        assert "ModuleNotFoundError" in dev.expect("broken")["error"]["message"]

        hello.edit(lambda text: text.replace("\nimport nothing_of_that_name\n", ""))

        dev.expect("reloaded")
        hello.run(*START, "order-1")
        dev.expect("waiting", path="approval")
