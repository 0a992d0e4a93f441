"""The page about pausing shows a program that works, and names every kind of cause."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_about_pausing_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "order.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "-W", "error", "order.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "['workflow paused']\ncash\n", "")


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

    assert kinds
    assert {kind for kind in kinds if f"`{kind}`" not in PAGE} == set()
