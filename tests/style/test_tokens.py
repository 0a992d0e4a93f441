"""The colours of the dashboard can be read: their contrast is computed from the file, not judged by eye."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.style.tree import ROOT

TEXT: Final = (ROOT / "dashboard" / "src" / "styles" / "tokens.css").read_text(encoding="utf-8")
GROUNDS: Final = ("bg", "bg-sunken", "bg-raised", "bg-hover", "bg-selected")
TONES: Final = ("idle", "run", "wait", "warn", "bad", "good", "undo")
TEXTS: Final = ("text", "text-2", "text-3", "accent", *TONES)
MARKS: Final = (*(f"bar-{tone}" for tone in ("done", "idle", "run", "wait", "warn", "bad", "undo")), "line-control")


def values_in(block: str) -> dict[str, tuple[str, str]]:
    """Each colour in light and dark."""
    found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", block)
    return {name: (light, dark) for name, light, dark in found}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


USUAL: Final = values_in(TEXT.partition(':root[data-theme="light"]')[0])
CHOSEN: Final = values_in(TEXT.partition(':root[data-theme="contrast"] {')[2].partition("}")[0])
ASKED: Final = values_in(TEXT.partition("(prefers-contrast: more)")[2])


@pytest.mark.parametrize(("values", "text_min", "mark_min"), [(USUAL, 4.5, 3.0), ({**USUAL, **CHOSEN}, 6.2, 4.5)])
def test_every_text_and_mark_stands_out_from_every_ground(
    values: dict[str, tuple[str, str]], text_min: float, mark_min: float
) -> None:
    pairs = [(text, ground, text_min) for text in TEXTS for ground in GROUNDS]
    pairs += [(mark, ground, mark_min) for mark in MARKS for ground in GROUNDS]
    pairs += [("on-accent", "accent", text_min), ("on-alarm", "alarm", text_min)]
    if values is USUAL:  # with high contrast, the tints are gone
        pairs += [(tone, f"{tone}-soft", text_min) for tone in TONES]
    weak = [
        f"{front} on {ground}: {contrast(one, other):.2f}"
        for front, ground, least in pairs
        for one, other in zip(values[front], values[ground], strict=True)
        if contrast(one, other) < least
    ]

    assert weak == []


def test_the_system_and_the_setting_have_the_same_high_contrast() -> None:
    assert CHOSEN == ASKED
    assert len(CHOSEN) > 20
