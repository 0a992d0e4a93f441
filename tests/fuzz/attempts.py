"""One try of a decoder with some bytes: what it may do, and what is a defect."""

from __future__ import annotations

import time

from tests.fuzz.decoders import Decoder

SECONDS_MAX = 0.05  # of CPU; an input that takes longer is tried again, because the collector may have run


class Defect(Exception):
    """A decoder did something with an input that it must not do."""


def attempt(decoder: Decoder, data: bytes) -> bool:
    """Let it read; whether it did. Raises `Defect` for what it must not do."""
    has_read, seconds = _read(decoder, data)
    if seconds > SECONDS_MAX and min(_read(decoder, data)[1] for _ in range(3)) > SECONDS_MAX:
        raise Defect(f"{seconds:.3f} s of CPU for {len(data)} bytes: {data[:200]!r}")
    return has_read


def _read(decoder: Decoder, data: bytes) -> tuple[bool, float]:
    began = time.thread_time()
    try:
        decoder.read(data)
    except decoder.refusals as error:
        str(error)  # whoever is told must be able to print it
        return False, time.thread_time() - began
    except Exception as error:
        raise Defect(f"{type(error).__name__}: {error} for {data[:200]!r}") from error
    return True, time.thread_time() - began
