"""A first check of a value and its JSON, at the speed of C: could they differ?

False alarms only cost a visit of the value. Misses are bugs.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepwell.codec.base import DEPTH_MAX
from stepwell.codec.plans import write_revealed

_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder().decode

_NUL: Final = "\\u0000"
_MASKED: Final = "*" * 10  # how pydantic writes a secret
_LONG_INT: Final = "0" * 19  # the shortest int outside 64 bits has 19 digits and a sign
# Lower case, and every digit becomes "0": one pass, then plain searches.
_FOLDED: Final = bytes(range(256)).lower().translate(bytes.maketrans(b"123456789", b"000000000"))


def is_suspicious(value: Any, body: bytes) -> bool:
    """Whether this JSON, made from `value`, may decode to another value, or is deeper than allowed."""
    text = body.translate(_FOLDED).decode("latin-1")  # `in` is three times as fast in a str
    if _NUL in text or _LONG_INT in text:
        return True
    plain = _read(body)
    # Plain dicts and lists are compared directly. That finds NaN, colliding keys and everything that is not plain.
    is_same = (type(value) is dict or type(value) is list) and plain == value
    if not is_same and _is_unfaithful(value, plain, text):
        return True
    return len(body) > 2 * DEPTH_MAX and _is_deep(body, plain)


def _is_unfaithful(value: Any, plain: Any, text: str) -> bool:
    # NaN and Infinity are written as words in Decimals and keys, and as null elsewhere.
    if 'nan"' in text or "nan0" in text or 'inf"' in text or 'infinity"' in text or _MASKED in text:
        return True
    if "null" in text and msgspec.to_builtins(value, enc_hook=write_revealed) != plain:
        return True
    # Two keys that are written alike, such as 1 and "1", become one when decoded: the text gets shorter.
    return len(_write(plain)) != len(text)


def _is_deep(body: bytes, plain: Any) -> bool:
    if body.count(b"[") + body.count(b"{") <= DEPTH_MAX:
        return False
    level = [plain]
    for _ in range(DEPTH_MAX):
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return False
    return True
