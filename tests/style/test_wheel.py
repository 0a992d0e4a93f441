"""The wheel holds what the package needs at run time, not only its Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.style.tree import PACKAGE, ROOT


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if name.startswith("stepwell/")}

    ours = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "stepwell/py.typed" in shipped
    assert "stepwell/http/dashboard_files/index.html" in shipped
    assert {Path(name).suffix for name in shipped if "/dashboard_files/assets/" in name} >= {".css", ".js"}
    assert shipped == ours
