"""Payloads in a bucket, against a real server of the S3 protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from moto.server import ThreadedMotoServer

from stepwell import Context, Engine, workflow
from stepwell.codec import BucketBlobs, JsonCodec, Offloaded
from stepwell.codec.base import ANY, Place
from stepwell.codec.blobs import DamagedBlobError
from stepwell.errors import CorruptRecordError, InvalidOptionError, StoreUnavailableError

PLACE = Place("checkout", "pay")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="shop")
    yield client
    for each in client.list_objects_v2(Bucket="shop").get("Contents", []):
        client.delete_object(Bucket="shop", Key=each["Key"])
    client.delete_bucket(Bucket="shop")


@pytest.fixture
def blobs(s3: Any, endpoint: str) -> BucketBlobs:
    return BucketBlobs("shop", prefix="prod/", endpoint=endpoint)


def _keys(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket="shop").get("Contents", [])]


def test_a_blob_is_stored_once_under_its_hash(s3: Any, blobs: BucketBlobs) -> None:
    names = {blobs.put(b"content") for _ in range(3)}

    assert names == {hashlib.sha256(b"content").hexdigest()}
    assert _keys(s3) == [f"prod/{next(iter(names))}"]
    assert blobs.get(next(iter(names))) == b"content"
    assert "prod/" in repr(blobs)


def test_a_missing_or_changed_blob_is_found_out(s3: Any, blobs: BucketBlobs) -> None:
    name = blobs.put(b"content")
    with pytest.raises(LookupError):
        blobs.get("0" * 64)
    with pytest.raises(LookupError):
        blobs.get("../secret")
    s3.put_object(Bucket="shop", Key=f"prod/{name}", Body=b"another")
    with pytest.raises(DamagedBlobError):
        blobs.get(name)
    assert blobs.put(b"content") == name
    assert blobs.get(name) == b"content"


def test_a_payload_that_cannot_be_reached_now_is_no_lost_payload(s3: Any, endpoint: str) -> None:
    codec = Offloaded(JsonCodec(), BucketBlobs("nowhere", endpoint=endpoint), above=100)
    kept = Offloaded(JsonCodec(), BucketBlobs("shop", endpoint=endpoint), above=100)
    stored = kept.encode("x" * 200, place=PLACE)

    with pytest.raises(StoreUnavailableError):
        codec.encode("x" * 200, place=PLACE)
    with pytest.raises(StoreUnavailableError):
        codec.decode(stored, ANY, place=PLACE)
    assert kept.decode(stored, ANY, place=PLACE) == "x" * 200
    s3.delete_object(Bucket="shop", Key=_keys(s3)[0])
    with pytest.raises(CorruptRecordError):
        kept.decode(stored, ANY, place=PLACE)


@pytest.mark.parametrize("wrong", [{"bucket": ""}, {"bucket": "a/b"}, {"bucket": "a", "prefix": "a b"}])
def test_a_bucket_has_a_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        BucketBlobs(**wrong)


@workflow
async def echo(ctx: Context, text: str) -> str:
    return text


async def test_a_run_keeps_its_large_payloads_in_the_bucket(s3: Any, blobs: BucketBlobs, tmp_path: Path) -> None:
    codec = Offloaded(JsonCodec(), blobs)
    async with Engine(f"sqlite:///{tmp_path}/shop.db", workflows=[echo], codec=codec) as engine:
        run = await engine.start(echo, "x" * 200_000)

        assert await run.result("60s") == "x" * 200_000
        assert len(_keys(s3)) == 1
        view = await engine.status(run.run_id)
        assert view is not None
        assert view.output == "x" * 200_000
