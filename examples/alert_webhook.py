"""People hear once, by a signed webhook, that orders fail.

You learn: a rule that watches runs, a webhook as its notifier, how a receiver checks the signature, and an
acknowledgement with a note.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stepwell import App, Context, Engine, Fatal, StepwellError, workflow
from stepwell.care import Alert
from stepwell.sinks import Webhook, verify_signature

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # in the environment of both sides, not in the code


async def charge(number: int) -> None:
    raise Fatal("the card API is down")


@workflow
async def order(ctx: Context, number: int) -> None:
    await ctx.step(charge, number)


RULES = [Alert("orders fail", order, count=3, within="10m")]


@contextmanager
def receiver(heard: asyncio.Queue[dict[str, Any]]) -> Iterator[str]:
    """A server of the people who are on call. It runs in threads of its own, as if it were elsewhere."""
    loop = asyncio.get_running_loop()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            verify_signature(SECRET, dict(self.headers), body)  # raises for anybody else
            self.send_response(204)
            self.end_headers()
            loop.call_soon_threadsafe(heard.put_nowait, json.loads(body))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/on-call"
        server.shutdown()


async def main() -> None:
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    with tempfile.TemporaryDirectory() as folder, receiver(heard) as url:
        database = f"sqlite:///{folder}/shop.db"
        async with Engine(database, workflows=[order]) as engine:
            for number in range(3):
                try:
                    await (await engine.start(order, number)).result()
                except StepwellError:
                    continue
        # Only a receiver on this machine needs the two permissions.
        webhook = Webhook(url, secret=SECRET, events="stepwell.alert.*", allow_http=True, allow_private=True)
        app = App(database, workflows=[order], alerts=RULES, sinks=[webhook])
        async with Engine(app) as engine:
            async with asyncio.timeout(30):
                message = await heard.get()
            print(f"heard: {message['payload']['alert']}: {message['payload']['rule']}")
            await engine.alerts.acknowledge("orders fail", by="ann", note="the card API is down")
            shown = await engine.alerts.get("orders fail")
            print(f"{shown.name} is {shown.state}, seen by {shown.seen_by}: {shown.note}")


if __name__ == "__main__":
    logging.getLogger("stepwell").setLevel(logging.ERROR)  # a worker logs alerts as warnings, too
    asyncio.run(main())
