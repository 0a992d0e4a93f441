"""`stepwell dev` in a container or in CI: lines, no keys, clean ends, nobody left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from urllib.error import HTTPError

import pytest

from stepwell.cli.dev.child import GRACE_SECONDS
from stepwell.cli.dev.clock import write_skipped
from stepwell.clock import SECOND, Span
from tests.newcomer.conftest import Ground, is_alive, until
from tests.newcomer.test_first_five_minutes import START


def test_json_lines_tell_what_happens_and_a_signal_ends_both_processes(hello: Ground) -> None:
    with hello.dev() as dev:
        ready = dev.expect("ready")
        assert ready["workflows"] == ["order_fulfilment v1"]
        assert ready["sample"] == "stepwell start order_fulfilment customer=ann amount:=42"

        request = urllib.request.Request(
            f"{ready['url']}/runs",
            json.dumps({"workflow": "order_fulfilment", "input": {"customer": "ann", "amount": 1}}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            run_id = json.load(answer)["run"]["run_id"]

        assert dev.expect("started")["run_id"] == run_id
        assert dev.expect("step", path="reserve_stock")["value"] == "goods for ann"
        assert dev.expect("waiting", path="approval")["names"] == ["approve"]
        assert dev.stop(signal.SIGTERM) == 0
        dev.expect("stopped")
        assert not is_alive(ready["pid"])


def test_a_signal_ends_it_while_the_code_is_being_loaded(hello: Ground) -> None:
    hello.edit(lambda text: f"{text}\nfrom pathlib import Path\nPath('loading').touch()\nimport time\ntime.sleep(90)\n")
    with hello.dev() as dev:
        until((hello.folder / "hello" / "loading").exists)
        assert dev.stop(signal.SIGINT) == 0
        dev.expect("stopped")


def test_a_second_signal_ends_it_at_once_however_soon_it_comes(hello: Ground) -> None:
    hello.edit(lambda text: text.replace("asyncio.sleep(0.5)", "asyncio.sleep(90)"))
    with hello.dev() as dev:
        pid = dev.expect("ready")["pid"]
        hello.run(*START, "order-1")
        dev.expect("step", path="reserve_stock")
        began = time.monotonic()
        dev.process.send_signal(signal.SIGINT)
        assert dev.stop(signal.SIGTERM) == 0
        assert time.monotonic() - began < GRACE_SECONDS
        assert not is_alive(pid)


def test_another_host_name_is_refused(hello: Ground) -> None:
    with hello.dev() as dev:
        url = dev.expect("ready")["url"]
        request = urllib.request.Request(f"{url}/runs", headers={"host": "evil.example"})

        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)

        assert refused.value.code in (403, 421)
        refused.value.close()
    # What is logged beside the events is JSON too.
    assert [event["logger"] for event in dev.events if "event" not in event] == ["stepwell.http.refused"]


def test_a_port_that_is_taken_is_not_a_reason_to_stop(hello: Ground) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = subprocess.Popen(
            ["stepwell", "dev", "--port", str(port)],
            cwd=hello.folder / "hello",
            env=hello.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        lines: list[str] = []
        with process, process.stdout:
            while "Ctrl-C stops" not in "".join(lines):
                lines.append(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait(30) == 0

    said = "".join(lines)
    assert f"(port {port} is taken)" in said
    assert f"http://127.0.0.1:{port} " not in said
    assert "press c" not in said
    assert "\x1b" not in said + rest
    assert "Stopped." in rest


def test_the_worker_dies_with_its_supervisor_and_the_next_one_takes_over_at_once(hello: Ground) -> None:
    hello.edit(lambda text: text.replace("asyncio.sleep(0.5)", "asyncio.sleep(2)"))
    with hello.dev() as dev:
        pid = dev.expect("ready")["pid"]
        hello.run(*START, "order-1")
        dev.expect("step", path="reserve_stock")

        os.kill(dev.process.pid, signal.SIGKILL)

        until(lambda: not is_alive(pid))
    with hello.dev() as dev:
        assert dev.expect("ready")["unfinished"] == ["order-1"]
        dev.expect("step", path="charge_card")
        dev.expect("waiting", path="approval")


def test_a_terminal_that_is_closed_ends_both_processes(hello: Ground) -> None:
    with hello.terminal("stepwell", "dev") as screen:
        pid = int(screen.expect(r"Worker +dev-1 · pid (\d+)")[1])
        screen.expect("q to quit")

        screen.hang_up()

        until(lambda: not is_alive(screen.pid))
        until(lambda: not is_alive(pid))


def test_a_second_one_joins_as_another_worker(hello: Ground) -> None:
    with hello.dev() as first:
        ready = first.expect("ready")
        with hello.dev() as second:
            joined = second.expect("ready")
            assert joined["worker"] == "dev-2"
            assert joined["joins"] == {"url": ready["url"], "worker": "dev-1"}
            assert joined["url"] != ready["url"]
            refused = hello.run("stepwell", "dev", "--fresh")
            assert refused.returncode == 2
            assert "another stepwell dev has this database open" in refused.stderr
            assert first.stop() == 0

            hello.run(*START, "order-1")

            second.expect("waiting", path="approval")
            assert second.stop() == 0
    with hello.dev("--fresh") as third:
        assert third.expect("ready")["unfinished"] == []


def test_time_that_another_one_skips_is_skipped_here_too(hello: Ground) -> None:
    with hello.dev() as dev:
        dev.expect("ready")
        hello.run(*START, "order-1")
        dev.expect("waiting", path="approval")

        write_skipped(hello.folder / "hello" / ".stepwell" / "dev.db", Span(73 * 3600 * SECOND))

        assert dev.expect("skipped")["seconds"] == 73 * 3600
        dev.expect("step", path="send_reminder")
        dev.expect("waiting", path="last_chance")
        assert dev.stop() == 0
    with hello.dev() as dev:
        assert dev.expect("ready")["skipped_seconds"] == 73 * 3600


def test_a_worker_that_dies_by_itself_is_replaced(hello: Ground) -> None:
    with hello.dev() as dev:
        pid = dev.expect("ready")["pid"]
        os.kill(pid, signal.SIGKILL)
        assert dev.expect("died")["code"] == -signal.SIGKILL

        hello.run(*START, "order-1")

        dev.expect("waiting", path="approval")
