"""The table of cases is complete and true."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"^\| ((?:RV|RI|ST|SC|SM)-\d\d) \| (.+) \|$", re.MULTILINE)
SYSTEMS = {"RV": "revenant", "RI": "rivet", "ST": "stellaops", "SC": "durable_monad", "SM": "stem"}


def test_every_case_has_its_tests_or_says_what_it_waits_for():
    rows = ROW.findall((HERE / "README.md").read_text(encoding="utf-8"))
    wrong = []
    for case, cell in rows:
        files = (f"test_{SYSTEMS[case[:2]]}.py", "test_events.py")
        source = "".join((HERE / file).read_text(encoding="utf-8") for file in files)
        named = set(re.findall(rf"def (test_{case.lower().replace('-', '_')}_\w+)", source))
        if named != set(re.findall(r"`(test_\w+)`", cell)) or (not named and not cell.startswith("later: ")):
            wrong.append(case)

    assert wrong == []
    assert len(rows) == len({case for case, _ in rows}) == 118
