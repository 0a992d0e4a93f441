"""The page about repairs shows a program that works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "repair.md"


def test_the_example_of_the_page_about_repairs_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "shop.py").write_text(code)

    done = subprocess.run(
        [sys.executable, "-W", "error", "shop.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    said = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert "the stock API does not answer" in said[0]
    assert said[1:] == [
        "('greet',) ('reserve',) ['thank you for order 1', 'by hand']",
        "('reserve',) False",
    ]
