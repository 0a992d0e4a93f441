"""Whatever is read from outside is read or refused, and nothing else happens. The whole campaign is `make fuzz`."""

from __future__ import annotations

import pytest

from tests.fuzz.attempts import Defect, attempt
from tests.fuzz.decoders import DECODERS, Decoder
from tests.fuzz.mutations import mutations

COUNT = 1_500


@pytest.mark.parametrize("name", DECODERS)
def test_bytes_are_read_or_refused(name: str) -> None:
    decoder = DECODERS[name]

    read = sum(attempt(decoder, data) for data in mutations(decoder.examples, COUNT, name))

    is_total = name == "shown-payload"  # it shows everything
    assert 0 < read < COUNT + len(decoder.examples) + is_total  # some are good, some are not: both ways were gone


def test_a_decoder_that_raises_something_else_is_found() -> None:
    broken = Decoder(lambda data: data.decode("ascii"), (b"a",))

    with pytest.raises(Defect, match="UnicodeDecodeError"):
        for data in mutations(broken.examples, COUNT, "broken"):
            attempt(broken, data)


def test_a_decoder_that_takes_too_long_is_found() -> None:
    slow = Decoder(lambda data: sum(range(20_000_000)), (b"a",))

    with pytest.raises(Defect, match="of CPU"):
        attempt(slow, b"a")
