"""`stepwell dev` with an App that encrypts: the worker, the HTTP API and other commands store and read the same."""

from __future__ import annotations

import json
import urllib.request

from tests.newcomer.conftest import Ground

ENCRYPTED = """
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.codec.json_codec import JsonCodec

app = App(
    "postgresql://nowhere.example/shop",
    workflows=[order_fulfilment],
    codec=Encrypted(JsonCodec(), keys=Keys("k1", {"k1": b"k" * 32})),
)
"""


def test_dev_runs_an_encrypted_app_on_its_own_database(hello: Ground) -> None:
    hello.edit(lambda text: text.replace("app = App(workflows=[order_fulfilment])\n", ENCRYPTED))
    with hello.dev("app.py:app") as dev:
        ready = dev.expect("ready")
        request = urllib.request.Request(
            f"{ready['url']}/api/runs",
            json.dumps(
                {"workflow": "order_fulfilment", "key": "k", "input": {"customer": "rumpel", "amount": 1}}
            ).encode(),
            {"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()
        dev.expect("waiting", path="approval")
        hello.edit(lambda text: text.replace("parcel for", "package for"))
        assert dev.expect("changed")["is_safe"]
        dev.expect("reloaded")
        database = "sqlite:///.stepwell/dev.db"
        sent = hello.run("stepwell", "signal", "k", "approve", "--app", "app.py:app", "--db", database)
        assert sent.returncode == 0, sent.stderr
        dev.expect("run", status="completed")
        assert dev.stop() == 0

    shown = hello.run("stepwell", "show", "k", "--app", "app.py", "--db", database, "-o", "json")
    assert json.loads(shown.stdout)["output"] == "package for rumpel"
    stored = b"".join(file.read_bytes() for file in (hello.folder / "hello" / ".stepwell").glob("dev.db*"))
    assert b"rumpel" not in stored
