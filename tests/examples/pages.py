"""Programs that stand in pages, run as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Said(NamedTuple):
    """What a program came to."""

    code: int
    out: str
    err: str


def run_example(page: str, folder: Path) -> Said:
    """Run the one whole program of a page, by itself in a folder; a warning is an error."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    (code,) = [block for block in blocks if "import " in block]
    (folder / "example.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)
