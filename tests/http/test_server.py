"""A real server process: where it listens, whom it lets in, what it says, and what generated requests do to it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from stepwell import SyncEngine
from stepwell.cli.main import main
from stepwell.http import Role
from stepwell.http.routes import OPERATIONS
from stepwell.http.tokens import write_tokens
from tests.http.campaign import attack
from tests.http.desk import TEXTS, TOKENS
from tests.http.server import ROOT, command, environment, serving
from tests.http.test_connections import make_certificate, trusting

ADMIN = {"authorization": f"Bearer {TEXTS[Role.ADMIN]}"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
@pytest.mark.parametrize("tokens", [False, True])
def test_an_open_door_without_tokens_is_not_opened(tmp_path: Path, host: str, tokens: bool) -> None:
    empty = tmp_path / "empty"
    empty.touch(0o600)
    words = ["--host", host, "--port", "0", *(["--tokens", str(empty)] if tokens else [])]

    done = subprocess.run(
        command(f"sqlite:///{tmp_path / 'a.db'}", *words),
        capture_output=True,
        env=environment(),
        cwd=ROOT,
        timeout=60,
        text=True,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("SW103")
    assert "stepwell token new" in done.stderr
    assert done.stdout == ""


def test_tokens_and_payloads_do_not_go_over_a_network_in_the_clear_unless_that_is_wanted(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    write_tokens(tokens, TOKENS)
    words = ["--host", "192.0.2.1", "--port", "0", "--tokens", str(tokens)]
    plain, wanted, half = (
        subprocess.run(
            command(f"sqlite:///{tmp_path / 'a.db'}", *words, *more),
            capture_output=True,
            env=environment(),
            cwd=ROOT,
            timeout=60,
            text=True,
        )
        for more in ([], ["--allow-http"], ["--tls-cert", "chain.pem"])
    )

    assert plain.returncode == 2
    assert "there is no TLS" in plain.stderr
    assert "--allow-http" in plain.stderr
    assert "WITHOUT TLS" in wanted.stderr
    assert "cannot listen on 192.0.2.1" in wanted.stderr  # which is nobody's
    assert "give both" in half.stderr


def test_with_a_certificate_it_serves_https(tmp_path: Path) -> None:
    chain, key = make_certificate(tmp_path)
    with serving(tmp_path, words=["--tls-cert", str(chain), "--tls-key", str(key)]) as server:
        answer = httpx.get(f"{server.url}/api/runs", headers=ADMIN, verify=trusting(chain))

    assert server.url.startswith("https://127.0.0.1:")
    assert answer.status_code == 200


def test_on_loopback_it_serves_without_tokens_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, has_tokens=False) as server:
        anybody = httpx.get(f"{server.url}/api/runs")
        page = httpx.get(f"{server.url}/api/runs", headers={"origin": "http://evil.example"})
        rebound = httpx.get(f"{server.url}/api/runs", headers={"host": "evil.example"})

    assert urlsplit(server.url).hostname == "127.0.0.1"
    assert [answer.status_code for answer in (anybody, page, rebound)] == [200, 421, 421]
    assert "server" not in anybody.headers


def test_with_tokens_it_serves_who_has_one_until_it_is_taken_back(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        nobody = httpx.get(f"{server.url}/api/runs")
        body = {"workflow": "checkout", "input": {"customer": "ann", "amount": 1}}
        started = httpx.post(f"{server.url}/api/runs", json=body, headers=ADMIN).json()["run"]["run_id"]
        result = httpx.get(f"{server.url}/api/runs/{started}/result", params={"wait": 20}, headers=ADMIN, timeout=30)
        with httpx.stream("GET", f"{server.url}/api/runs/{started}/changes", headers=ADMIN) as stream:
            told = [line for line in stream.iter_lines() if line.startswith("event: ")]
        assert main(["token", "revoke", "the admin", "--tokens", str(server.tokens)]) == 0
        deadline = time.monotonic() + 60
        while httpx.get(f"{server.url}/api/runs", headers=ADMIN).status_code == 200:
            assert time.monotonic() < deadline, "a token that was taken back still counts after a minute"
            time.sleep(0.1)

    assert nobody.status_code == 401
    assert result.json()["output"] == {"text": "reserved for ann", "amount": 1}
    assert told == ["event: entry", "event: run"]


SMUGGLED = [
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nGET /",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\nY: b\x00\r\n\r\n",
    b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n Authorization: Bearer x\r\n\r\n",
    b"GET http://evil.example/runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


def test_smuggled_and_malformed_requests_get_no_data(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        address = urlsplit(server.url)
        for request in SMUGGLED:
            with socket.create_connection((address.hostname, address.port), timeout=10) as line:
                line.sendall(request)
                line.shutdown(socket.SHUT_WR)
                answer = b""
                while chunk := line.recv(65_536):
                    answer += chunk
            assert b'"runs"' not in answer, request
            assert b"Traceback" not in answer, request
        after = httpx.get(f"{server.url}/healthz")

    assert after.status_code == 200


def test_generated_requests_find_no_crash_no_mismatch_and_no_open_door(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        figures = attack(server.url, 6, 7)

    assert figures.is_clean, "\n".join(figures.lines())
    assert min(figures.requests.values()) >= 6
    assert min(figures.strangers.values()) >= 6
    assert len(figures.requests) == len(figures.strangers) == len(OPERATIONS)


def test_tokens_are_made_listed_and_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "tokens")
    assert main(["token", "new", "ci", "--role", "operator", "--expires", "90d", "--tokens", file]) == 0
    text = capsys.readouterr().out.strip()
    assert main(["token", "ls", "--tokens", file, "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)

    assert text.startswith("swt_")
    assert [(each["name"], each["role"], each["is_revoked"]) for each in listed["tokens"]] == [
        ("ci", "operator", False)
    ]
    assert text not in json.dumps(listed)
    assert main(["token", "revoke", "cj", "--tokens", file]) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_server_that_is_stopped_lets_bodies_end_and_gives_its_lease_back(tmp_path: Path, number: signal.Signals):
    """uvicorn raises the signal again when it has ended: by then the engine must be closed."""
    db = f"sqlite:///{tmp_path}/stopped.db"
    process = subprocess.Popen(
        [*command(db, "tests.host.brief", "--port", "0", "-o", "json"), "--embedded"],
        stdout=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
    )
    assert process.stdout is not None
    with process.stdout:
        said = json.loads(process.stdout.readline())
        body = {"workflow": "brief", "input": 1}
        answer = httpx.post(f"{said['url']}/api/runs", json=body, timeout=30).json()
        process.send_signal(number)
        assert process.wait(60) == 0

    with SyncEngine(db) as engine:
        assert engine.workers.list() == []
        assert engine.status(answer["run"]["run_id"]).status != "running"
