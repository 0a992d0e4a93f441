"""Blobs in a bucket: Amazon S3, and everything that speaks its protocol.

Needs the extra `stepwell[s3]`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from stepwell.codec.blobs import DamagedBlobError
from stepwell.errors import InvalidOptionError

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9!_.*'()/-]{0,512}")
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})
TIMEOUT_SECONDS: Final = 10


class BucketBlobs:
    """Blobs as objects of a bucket, named by their hash.

        Engine(url, codec=Offloaded(JsonCodec(), BucketBlobs("shop-payloads", prefix="prod/")))

    `endpoint` is the URL of another service than Amazon's, and `client` a client of boto3 with options of your own;
    credentials and region are found as boto3 always finds them. The content of every object is verified by its hash,
    and an object that exists already is not sent again.

    Not promised: that objects are removed once nothing refers to them; use a lifecycle rule that is longer than your
    retention. A call blocks the event loop for as long as the bucket takes, at most some ten seconds.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint: str | None = None,
        region: str | None = None,
        client: Any = None,
    ) -> None:
        if not bucket or "/" in bucket:
            raise InvalidOptionError(f"{bucket!r:.80} is not the name of a bucket", fix='BucketBlobs("shop-payloads")')
        if not _PREFIX.fullmatch(prefix):
            raise InvalidOptionError(f"the prefix {prefix!r:.80} is not valid", fix='prefix="shop/payloads/"')
        self._bucket = bucket
        self._prefix = prefix
        self._client = client or _make_client(endpoint, region)

    def put(self, content: bytes) -> str:
        """Store the content; see `Blobs.put`."""
        name = hashlib.sha256(content).hexdigest()
        if not self._holds(name, content):
            self._call("put_object", name, Body=content)
        return name

    def get(self, name: str) -> bytes:
        """The content of that name; see `Blobs.get`."""
        if not _NAME.fullmatch(name):
            raise LookupError(f"{name[:80]!r} is not the name of a blob")
        try:
            content: bytes = self._call("get_object", name)["Body"].read()
        except OSError:
            raise
        except LookupError:
            raise LookupError(f"there is no blob {name}") from None
        except Exception as error:
            raise _unreachable(error) from error
        if hashlib.sha256(content).hexdigest() != name:
            raise DamagedBlobError(f"blob {name} has another content than its name says")
        return content

    def _holds(self, name: str, content: bytes) -> bool:
        """Whether the bucket has this content. If its tag is not an MD5, the content is sent again."""
        try:
            found = self._call("head_object", name)
        except LookupError:
            return False
        tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return bool(found["ContentLength"] == len(content) and str(found.get("ETag", "")).strip('"') == tag)

    def _call(self, verb: str, name: str, **more: Any) -> Any:
        """Ask the bucket. Raises `LookupError` if there is no such object, and `OSError` for everything else."""
        try:
            return getattr(self._client, verb)(Bucket=self._bucket, Key=self._prefix + name, **more)
        except Exception as error:
            response: Any = getattr(error, "response", {})
            code = str(response.get("Error", {}).get("Code", ""))
            if verb != "put_object" and code in _MISSING:
                raise LookupError(f"there is no blob {name}") from None
            raise _unreachable(error) from error

    def __repr__(self) -> str:
        return f"BucketBlobs({self._bucket!r}, prefix={self._prefix!r})"


def _unreachable(error: Exception) -> OSError:
    return OSError(f"the bucket does not answer: {type(error).__name__}: {error}")


def _make_client(endpoint: str | None, region: str | None) -> Any:
    try:
        import boto3  # type: ignore[import-untyped,unused-ignore]
        from botocore.config import Config  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise InvalidOptionError(
            "a bucket needs the package `boto3`", why=str(error), fix="pip install 'stepwell[s3]'"
        ) from error
    config = Config(connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"max_attempts": 2})
    return boto3.client("s3", endpoint_url=endpoint, region_name=region, config=config)
