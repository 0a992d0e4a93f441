"""Large payloads, by hash."""

from __future__ import annotations

import hashlib

from tests.differential.world import Handle, Operation, World

_CONTENTS = (b"", b"large", b"\x00" * 3_000)


def put(world: World) -> Operation:
    """Store a content."""
    content = world.chance.choice(_CONTENTS)

    async def call(at: Handle) -> str:
        return at.opened.store.blobs.put(content)

    return Operation("blobs.put", (content[:10],), call)


def get(world: World) -> Operation:
    """Read a payload, which may be unknown."""
    name = hashlib.sha256(world.chance.choice(_CONTENTS)).hexdigest()

    async def call(at: Handle) -> bytes | None:
        try:
            return at.opened.store.blobs.get(name)
        except LookupError:
            return None

    return Operation("blobs.get", (name,), call, lambda answer: ["nothing" if answer is None else "found"])
