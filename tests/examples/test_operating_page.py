"""The page about pausing names every kind of cause."""

from __future__ import annotations

import re

from tests.examples.pages import ROOT


def test_the_page_names_every_kind_of_cause() -> None:
    code = (ROOT / "src" / "stepwell" / "engine" / "causes.py").read_text(encoding="utf-8")
    kinds = set(re.findall(r'Cause\(\s*"([a-z ]+)"', code)) | {
        "all paused",
        "timer",
        "signal",
        "topic",
        "retry",
        "code",
    }

    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    assert kinds
    assert {kind for kind in kinds if f"`{kind}`" not in page} == set()
