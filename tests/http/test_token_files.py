"""A token file that is changed, broken or gone lets nobody in by what it no longer says, and callers learn nothing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Engine
from stepwell.errors import InvalidOptionError
from stepwell.http import Caller, Role, TokenFile, app, make_token
from stepwell.http.tokens import add_token, read_tokens, revoke, write_tokens


def _bad_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b'{"prefix": "half of a line')


def _bad_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")


def _misspelt(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"role"', b'"is_revokd":true,"role"'))


def _twice(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _writable(path: Path) -> None:
    path.chmod(0o666)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BREAKS = [_bad_line, _bad_bytes, _misspelt, _twice, _writable, _folder]


@pytest.mark.parametrize("damage", BREAKS, ids=[each.__name__.strip("_") for each in BREAKS])
async def test_a_broken_token_file_lets_nobody_in_and_tells_callers_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "tokens"
    kept, kept_token = make_token("kept", Role.ADMIN)
    removed, removed_token = make_token("removed", Role.ADMIN)
    write_tokens(path, [kept_token, removed_token])
    async with Engine("memory:") as engine:
        transport = httpx.ASGITransport(app=app(engine, access=TokenFile(path)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(text: str) -> httpx.Response:
                return await client.get("/api/runs", headers={"authorization": f"Bearer {text}"})

            before = [(await ask(text)).status_code for text in (kept, removed)]
            write_tokens(path, [kept_token])
            damage(path)
            answers = [await ask(text) for text in (kept, removed, "") for _ in range(3)]
            lines = [each.getMessage() for each in caplog.records if each.name == "stepwell.http"]
            if path.is_dir():
                path.rmdir()
            write_tokens(path, [kept_token])
            after = [(await ask(text)).status_code for text in (kept, removed)]

    assert before == [200, 200]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text.replace(answer.headers["x-request-id"], "") for answer in answers}) == 1
    assert not any(str(tmp_path) in answer.text or path.name in answer.json()["title"] for answer in answers)
    assert len(lines) == 1  # for each change of the file, not for each request
    assert str(path) in lines[0]
    assert after == [200, 401]


def test_a_removed_token_stops_with_the_next_request(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    (one, first), (other, second) = make_token("one", Role.VIEWER), make_token("other", Role.VIEWER)
    write_tokens(path, [first, second])
    file = TokenFile(path)
    before = file.find(one), file.find(other)
    write_tokens(path, [second])

    assert None not in before
    assert file.find(one) is None
    assert file.find(other) is not None


def test_the_operator_is_told_the_line_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    write_tokens(path, [make_token("one", Role.VIEWER)[1]])
    path.write_bytes(path.read_bytes() + b"\nnonsense\n")

    with pytest.raises(InvalidOptionError, match="line that is not a token") as caught:
        read_tokens(path)
    assert caught.value.where.endswith("tokens, line 3")


class _Broken:
    def identify(self, scope: Mapping[str, Any]) -> Caller | None:
        raise RuntimeError("/etc/secret/place")


async def test_an_authenticator_that_fails_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    async with Engine("memory:") as engine:
        transport = httpx.ASGITransport(app=app(engine, access=_Broken()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get("/api/runs")

    assert (answer.status_code, answer.json()["code"]) == (401, "SW800")
    assert "/etc/secret" not in answer.text
    assert any(each.levelno == logging.ERROR for each in caplog.records)


def test_writing_tokens_neither_follows_nor_uses_what_lies_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, victim = tmp_path / "tokens", tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    names = [b"a" * 8, b"a" * 8, b"b" * 8]
    (tmp_path / f".tokens.{names[0].hex()}").symlink_to(victim)
    (tmp_path / f".tokens.{os.getpid()}").symlink_to(victim)
    _, token = make_token("one", Role.VIEWER)
    monkeypatch.setattr("stepwell.http.tokens.random_bytes", lambda _: names.pop(0))
    umask = os.umask(0)
    try:
        write_tokens(path, [token])
    finally:
        os.umask(umask)

    assert victim.read_text(encoding="utf-8") == "precious"
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.is_symlink()
    assert read_tokens(path) == [token]
    assert names == []


def test_changes_of_several_processes_to_a_token_file_do_not_undo_each_other(tmp_path: Path) -> None:
    path, count = tmp_path / "tokens", 8
    write_tokens(path, [make_token(f"old {number}", Role.VIEWER)[1] for number in range(count)])
    start = threading.Barrier(2 * count)

    def add(number: int) -> None:
        start.wait()
        add_token(path, make_token(f"new {number}", Role.VIEWER)[1])

    def take_back(number: int) -> None:
        start.wait()
        revoke(path, f"old {number}")

    with ThreadPoolExecutor(2 * count) as threads:
        for done in [threads.submit(act, number) for number in range(count) for act in (add, take_back)]:
            done.result()

    kept = {token.name: token.is_revoked for token in read_tokens(path)}
    assert kept == {f"{age} {number}": age == "old" for number in range(count) for age in ("old", "new")}
    assert [each.name for each in tmp_path.iterdir()] == ["tokens"]
