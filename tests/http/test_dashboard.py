"""How the pages of the dashboard are served. What they do is tested in a browser, in tests/browser."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from stepwell import Engine
from stepwell.http import LoopbackAccess, Tokens, app
from stepwell.http.dashboard import FOLDER, Dashboard, Door
from tests.http.desk import TOKENS

BIG = "console.log(1);" * 200
PAGE = (
    """<!doctype html><base href="./"><meta name="environment" content=""><meta name="door" content=""><p>a page</p>"""
)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "icon.svg").write_text("<svg/>")
    (tmp_path / "assets" / "main-abc.js").write_text(BIG)
    (tmp_path / "sources.sha256").write_text("secret")
    return tmp_path


@asynccontextmanager
async def served(folder: Path, prefix: str = "", *, environment: str = "") -> AsyncIterator[httpx.AsyncClient]:
    async with Engine("memory:") as engine:
        application = app(engine, access=Tokens(TOKENS), dashboard=True)
        application._dashboard = Dashboard(environment=environment, door=Door.TOKEN, folder=folder)
        mounted = Starlette(routes=[Mount(prefix, app=application)]) if prefix else application
        transport = httpx.ASGITransport(app=mounted)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


@pytest.mark.parametrize("prefix", ["", "/tools/sw"])
@pytest.mark.parametrize(
    ("path", "base"),
    [("/", "./"), ("/runs", "./"), ("/runs/a-1", "../"), ("/runs/a%2F1", "../"), ("/compare/a/b.2", "../../")],
)
async def test_every_address_gets_the_page_with_its_way_to_the_root(
    built: Path, prefix: str, path: str, base: str
) -> None:
    async with served(built, prefix) as client:
        answer = await client.get(prefix + path)

    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    assert answer.text == PAGE.replace("./", base).replace('"door" content=""', '"door" content="token"')


async def test_the_api_stays_the_api_and_its_answers_keep_their_headers(built: Path) -> None:
    async with served(built) as client:
        refused = await client.get("/api/runs")
        unknown = await client.get("/api/nothing")
        healthy = await client.get("/healthz")
        bare = await client.get("/api")

    assert (refused.status_code, unknown.status_code, healthy.status_code) == (401, 401, 200)
    assert refused.headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors")
    assert (bare.status_code, bare.headers["location"]) == (308, "api/")


async def test_a_mount_without_a_slash_leads_to_the_one_with_it(built: Path) -> None:
    scope = {"type": "http", "method": "GET", "path": "/tools/sw", "root_path": "/tools/sw", "headers": []}
    found = Dashboard(folder=built).find(scope)

    assert found is not None
    assert (found.status_code, found.headers["location"]) == (308, "sw/")


async def test_an_asset_is_kept_for_good_and_compressed_for_those_who_read_that(built: Path) -> None:
    async with served(built) as client:
        packed = await client.get("/assets/main-abc.js")
        plain = await client.get("/assets/main-abc.js", headers={"accept-encoding": "identity"})
        head = await client.head("/assets/main-abc.js")
        small = await client.get("/icon.svg")

    assert (packed.text, plain.text, head.text) == (BIG, BIG, "")
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(gzip.compress(BIG.encode(), 9, mtime=0))
    assert "content-encoding" not in plain.headers
    assert packed.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert packed.headers["content-type"].startswith("text/javascript")
    assert (small.headers["cache-control"], small.headers["content-type"]) == ("no-cache", "image/svg+xml")


@pytest.mark.parametrize(
    "path",
    ["/favicon.ico", "/assets/none.js", "/sources.sha256", "/assets/../sources.sha256", "/assets/%2e%2e/index.html"],
)
async def test_nothing_but_the_built_files_is_a_file(built: Path, path: str) -> None:
    async with served(built) as client:
        answer = await client.get(path)

    assert answer.status_code in (200, 404)
    assert "secret" not in answer.text
    assert (answer.status_code == 404) or "a page" in answer.text


async def test_pages_are_only_read_and_only_under_the_names_of_the_server(built: Path) -> None:
    async with served(built) as client:
        written = await client.post("/runs")
        rebound = await client.get("/", headers={"host": "evil.example"})

    assert (written.status_code, written.headers["allow"]) == (405, "GET, HEAD")
    assert (rebound.status_code, rebound.json()["code"]) == (421, "SW802")


async def test_every_answer_has_the_headers_that_keep_pages_to_themselves(built: Path) -> None:
    async with served(built) as client:
        for path in ("/", "/icon.svg", "/assets/main-abc.js", "/assets/none.js", "/runs/a/b"):
            headers = (await client.get(path)).headers
            policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert policy["require-trusted-types-for"] == "'script'"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-opener-policy"] == "same-origin"


async def test_the_page_shows_the_environment_as_text(built: Path) -> None:
    async with served(built, environment='"><script>x()') as client:
        answer = await client.get("/")

    assert 'name="environment" content="&quot;&gt;&lt;script&gt;x()"' in answer.text


async def test_without_the_built_pages_the_server_says_how_to_build_them_and_the_api_works(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        answer = await client.get("/runs")
        api = await client.get("/api/runs")

    assert (answer.status_code, api.status_code) == (503, 401)
    assert "python dashboard/build.py" in answer.text


async def test_an_application_without_the_dashboard_has_no_pages() -> None:
    async with Engine("memory:") as engine:
        transport = httpx.ASGITransport(app=app(engine, access=LoopbackAccess()), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.get("/runs")).status_code == 404


COMPRESSED_MAX = 200_000
FIRST_PAGE_MAX = 90_000


def test_the_built_pages_are_small() -> None:
    """What a browser loads for the first page, and all there is, compressed as the server does it."""
    sizes = {
        path.name: len(gzip.compress(path.read_bytes(), 9))
        for path in FOLDER.rglob("*")
        if path.suffix != ".sha256"
        if path.is_file()
    }
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    first = sum(size for name, size in sizes.items() if name in page or name == "index.html" or "home" in name)

    assert first <= FIRST_PAGE_MAX
    assert sum(sizes.values()) <= COMPRESSED_MAX
