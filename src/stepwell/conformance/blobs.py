"""Large payloads, by hash."""

from __future__ import annotations

import hashlib

import pytest

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import FIRST, Scene, step

_CONTENT = b"a large payload " * 10_000


class BlobSuite(StoreCase):
    """Putting and getting."""

    async def test_a_blob_is_known_by_the_hash_of_its_content(self, scene: Scene) -> None:
        name = scene.store.blobs.put(_CONTENT)

        assert name == hashlib.sha256(_CONTENT).hexdigest()
        assert scene.store.blobs.get(name) == _CONTENT

    async def test_another_process_reads_a_blob_after_the_next_write(self, scene: Scene, elsewhere: Scene) -> None:
        name = scene.store.blobs.put(_CONTENT)
        await scene.create("r1", input=name.encode())

        assert elsewhere.store.blobs.get(name) == _CONTENT
        assert elsewhere.store.blobs.put(_CONTENT) == name

    async def test_a_blob_survives_a_rejected_write_that_refers_to_it(self, scene: Scene, elsewhere: Scene) -> None:
        turn = await scene.begin("r1")
        name = scene.store.blobs.put(_CONTENT)
        with pytest.raises(ValueError, match="expects entry"):
            await turn.commit(names=("a",), entries=(step(7, FIRST),))

        await turn.record("a", value=name.encode())

        assert elsewhere.store.blobs.get(name) == _CONTENT

    @pytest.mark.parametrize("name", ["0" * 64, "", "not a hash", "../../etc/passwd", "zz" * 32])
    async def test_an_unknown_blob_is_not_found(self, scene: Scene, name: str) -> None:
        with pytest.raises(LookupError):
            scene.store.blobs.get(name)
