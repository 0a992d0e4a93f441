"""Strict parsing of JSON text that comes from outside: a command line, an HTTP body.

Python's own parser accepts NaN, duplicate keys (the last one wins) and half a surrogate pair, and overflows its stack
on deep input. All of that is rejected here, for every store alike.
"""

from __future__ import annotations

import json
from typing import Any, Final

from stepwell.codec.base import DEPTH_MAX, EXTERNAL_NODES_MAX, Place
from stepwell.codec.refusals import DuplicateKey, Refusal, find_refusal

_BRACKETS: Final = (b"[", b"{")


class ExternalTextError(ValueError):
    """The text is not acceptable JSON. Never leaves the codec, which raises the final error with the place."""


def parse_strict(raw: bytes, at: Place) -> Any:
    """The value of JSON text in UTF-8, in plain JSON types.

    Raises:
        ExternalTextError: it is not JSON, or JSON that could not be stored faithfully.
    """
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_pairs, parse_constant=_refuse_constant)
    except UnicodeError as error:
        raise ExternalTextError(f"it is not valid UTF-8 at byte {error.args[2]}") from None
    except json.JSONDecodeError as error:
        raise ExternalTextError(f"it is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise ExternalTextError(f"it is nested deeper than {DEPTH_MAX} levels") from None
    except ExternalTextError:
        raise
    except ValueError:
        raise ExternalTextError("it contains a number with thousands of digits") from None
    refusal = find_refusal(value, at.root) or _too_many_nodes(raw)
    if refusal is not None:
        is_name = refusal.field and not refusal.field.startswith("[")
        raise ExternalTextError(f"`{'' if is_name else at.field}{refusal.field}`: {refusal.why}")
    return value


def find_refusal_in_text(body: bytes, root: str) -> Refusal | None:
    """Why JSON that an encoder wrote cannot be stored: duplicate keys and depth, which only the text shows."""
    return find_refusal(json.loads(body, object_pairs_hook=_pairs), root)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict in which a duplicate key is marked, so that a later visit of the value can name its path."""
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                result[key] = DuplicateKey(key)
            seen.add(key)
    return result


def _refuse_constant(name: str) -> Any:
    raise ExternalTextError(f"it contains {name}, which is not JSON")


def _too_many_nodes(raw: bytes) -> Refusal | None:
    # Every node but the first follows a comma or an opening bracket. Commas and brackets in strings are counted, too.
    nodes = 1 + raw.count(b",") + sum(raw.count(bracket) for bracket in _BRACKETS)
    if nodes > EXTERNAL_NODES_MAX:
        return Refusal("", f"it has about {nodes} values; at most {EXTERNAL_NODES_MAX} are accepted")
    return None
