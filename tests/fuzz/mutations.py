"""Changed examples, for the short version without a fuzzer: the same bytes for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_STRANGE = (
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b'"',
    b"{",
    b"[" * 3_000,
    b"9" * 400,
    b"1e999",
    b"\\u0000",
    b":",
    b"%",
    b"-",
    b"\n",
)


def mutations(examples: Sequence[bytes], count: int, seed: str) -> Iterator[bytes]:
    """So many inputs: every example itself, and then changed ones."""
    yield from examples
    rng = random.Random(seed)
    for _ in range(count):
        data = bytearray(rng.choice(examples))
        for _ in range(rng.randint(1, 4)):
            _change(data, rng, examples)
        yield bytes(data)


def _change(data: bytearray, rng: random.Random, examples: Sequence[bytes]) -> None:
    at = rng.randint(0, len(data))
    end = rng.randint(at, min(len(data), at + 16))
    match rng.randrange(5):
        case 0:
            del data[at:end]
        case 1:
            data[at:at] = rng.choice(_STRANGE)
        case 2:
            data[at:end] = rng.randbytes(rng.randint(1, 4))
        case 3:
            data[at:at] = data[at:end] * rng.randint(1, 20)
        case _:
            data[at:end] = rng.choice(examples)[:64]
