"""Headers before payloads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepwell.replay.headers import pack, unpack

HEADERS = st.lists(st.one_of(st.integers(-(2**53), 2**53), st.text(), st.none(), st.booleans()))


@given(HEADERS, st.binary())
def test_what_is_packed_is_unpacked(header: list[object], payload: bytes) -> None:
    assert unpack(pack(header, payload)) == (header, payload)
