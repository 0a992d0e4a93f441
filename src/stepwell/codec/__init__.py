"""Values ↔ bytes: typed JSON in a versioned envelope, and layers around it.

`base` is the contract and `json_codec` implements it; `signatures` reads a function's annotations and stores calls.
Layers (`layers`) change payloads and leave values to the inner codec: `encryption` encrypts them and binds each to its
row, `offload` keeps large ones as `blobs`. `addressed` seals a signal for a run that its sender knows only by key.
`registered` has the classes that authors describe. `envelopes` shows what is readable of a payload without its codec.
`upcasters` read old shapes. `secret` is a type that is stored only encrypted.

Nothing here imports by a stored name, evaluates text or reads pickles: stored bytes can only become types that the
*code* names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.codec.blobs import FolderBlobs
    from stepwell.codec.buckets import BucketBlobs
    from stepwell.codec.compression import Compressed
    from stepwell.codec.encryption import Encrypted, Keys
    from stepwell.codec.json_codec import JsonCodec
    from stepwell.codec.not_stored import NotStored
    from stepwell.codec.offload import Offloaded
    from stepwell.codec.registered import register
    from stepwell.codec.secret import Secret

__all__ = [
    "BucketBlobs",
    "Compressed",
    "Encrypted",
    "FolderBlobs",
    "JsonCodec",
    "Keys",
    "NotStored",
    "Offloaded",
    "Secret",
    "register",
]

_HOMES = {
    "stepwell.codec.blobs": ["FolderBlobs"],
    "stepwell.codec.buckets": ["BucketBlobs"],
    "stepwell.codec.compression": ["Compressed"],
    "stepwell.codec.encryption": ["Encrypted", "Keys"],
    "stepwell.codec.json_codec": ["JsonCodec"],
    "stepwell.codec.not_stored": ["NotStored"],
    "stepwell.codec.offload": ["Offloaded"],
    "stepwell.codec.registered": ["register"],
    "stepwell.codec.secret": ["Secret"],
}

if not TYPE_CHECKING:  # a type checker knows exactly the names above
    from stepwell.lazy import lazy_names

    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
