"""A small reverse proxy: it serves another server below a path, and tells it nothing of that path."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

_PIECE: Final = 65_536
_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding"})


@contextmanager
def proxied(url: str, prefix: str) -> Iterator[str]:
    """The address below which the server is reached."""
    target = urlsplit(url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # each answer ends with its connection

        def forward(self) -> None:
            if not self.path.startswith(prefix):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            upstream = http.client.HTTPConnection(target, timeout=30)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                upstream.request(self.command, self.path.removeprefix(prefix), body or None, headers)
                self.answer(upstream.getresponse())
            except ConnectionError:
                pass  # one of the two has gone
            finally:
                upstream.close()

        def answer(self, found: http.client.HTTPResponse) -> None:
            self.send_response_only(found.status, found.reason)
            for name, value in found.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.end_headers()
            while piece := found.read1(_PIECE):
                self.wfile.write(piece)
                self.wfile.flush()

        def do_GET(self) -> None:
            self.forward()

        def do_POST(self) -> None:
            self.forward()

        def do_DELETE(self) -> None:
            self.forward()

        def log_message(self, format: str, *words: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
