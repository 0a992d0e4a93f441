"""Small pictures: a PNG of a page with at most 256 colours. A page has few, so nothing is lost that one would see."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Final

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COLOURS_MAX: Final = 256
_CHANNELS: Final = {2: 3, 6: 4}  # by the type of colour in the head of the file

Colour = tuple[int, int, int]


def shrink(file: Path) -> None:
    """Write a PNG again with a palette. Raises `ValueError` for a file of another kind."""
    width, height, rows = _read(file.read_bytes())
    colours = Counter(colour for row in rows for colour in row)
    palette = [colour for colour, _ in colours.most_common(_COLOURS_MAX)]
    known = {colour: number for number, colour in enumerate(palette)}
    for colour in colours:
        if colour not in known:
            known[colour] = min(range(len(palette)), key=lambda number: _distance(colour, palette[number]))
    pixels = b"".join(b"\x00" + bytes(known[colour] for colour in row) for row in rows)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(bytes(colour) for colour in palette)),
        (b"IDAT", zlib.compress(pixels, 9)),
        (b"IEND", b""),
    ]
    file.write_bytes(_SIGNATURE + b"".join(_chunk(name, data) for name, data in parts))


def _distance(one: Colour, other: Colour) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _read(data: bytes) -> tuple[int, int, list[list[Colour]]]:
    if not data.startswith(_SIGNATURE):
        raise ValueError("this is not a PNG")
    at, head, packed = len(_SIGNATURE), b"", b""
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        head, packed = (body if name == b"IHDR" else head), packed + (body if name == b"IDAT" else b"")
        at += size + 12
    width, height, depth, kind, _, _, is_laced = struct.unpack(">IIBBBBB", head)
    channels = _CHANNELS.get(kind)
    if channels is None or depth != 8 or is_laced:
        raise ValueError(f"a PNG of type {kind} with {depth} bits is not one of a browser")
    stride, raw = width * channels, zlib.decompress(packed)
    rows: list[list[Colour]] = []
    before = bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        line = bytearray(raw[start + 1 : start + 1 + stride])
        _unfilter(raw[start], line, before, channels)
        rows.append([(line[x], line[x + 1], line[x + 2]) for x in range(0, stride, channels)])
        before = line
    return width, height, rows


def _unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> None:
    """Undo one of the five filters of PNG in place."""
    for x in range(len(line)):
        left, up = (line[x - step] if x >= step else 0), above[x]
        corner = above[x - step] if x >= step else 0
        match kind:
            case 0:
                return
            case 1:
                add = left
            case 2:
                add = up
            case 3:
                add = (left + up) // 2
            case 4:
                guess = left + up - corner
                add = min((left, up, corner), key=lambda one: abs(guess - one))
            case _:
                raise ValueError(f"a PNG has no filter {kind}")
        line[x] = (line[x] + add) & 255
