"""Audit what stepwell is built with: the lock, licences and our own source here; known flaws by the advisory database.

`python -m tools.audit`: all of it. `python -m tools.audit --offline`: without the advisory database. Exit code 1 for a
finding; 3 if the advisory database cannot be reached, so that nobody takes "not checked" for "nothing found".
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from tools.sbom import collect, licence_of

LOCK: Final = Path("requirements-dev.txt")
_PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[^]]*\])?==(?P<version>[^ ;\\]+)")
UNCHECKED: Final = 3


def check_lock(text: str) -> list[str]:
    """What is wrong with a lock: a requirement without a version or a hash, or one from an address."""
    found = []
    for block in re.split(r"\n(?=\S)", text.strip()):
        first = block.partition("\n")[0].rstrip(" \\")
        if block.startswith("#"):
            continue
        if "://" in block or block.startswith("-") or " @ " in first:
            found.append(f"{first}: comes from an address, not from an index")
        elif _PIN.match(block) is None:
            found.append(f"{first}: has no exact version")
        elif not re.search(r"--hash=sha256:[0-9a-f]{64}", block):
            found.append(f"{first}: has no hash")
    return found


def check_licences() -> list[str]:
    """What is needed at run time, or locked and installed, without saying its licence."""
    names = {name for name, _ in collect().items()}
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        pin = _PIN.match(line)
        if pin is not None:
            names.add(pin["name"])
    found = []
    for name in sorted(names):
        try:
            if not licence_of(distribution(name)):
                found.append(f"{name}: does not say its licence")
        except PackageNotFoundError:
            continue  # of another platform
    return found


def check_source() -> list[str]:
    """What bandit finds of high severity."""
    line = [sys.executable, "-m", "bandit", "--quiet", "--recursive", "-lll", "--format", "txt", "src"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()]


def check_advisories() -> tuple[int, str]:
    """Known flaws of the locked requirements: the exit code, and what to say."""
    line = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes", "--disable-pip"]
    done = subprocess.run(
        [*line, "--progress-spinner", "off", "--format", "json"], capture_output=True, text=True, check=False
    )
    return judge(done.stdout, done.stderr)


def judge(report: str, errors: str) -> tuple[int, str]:
    """What a report of pip-audit means. It ends with 0 also if it could look nothing up: what it skipped counts."""
    try:
        found = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (errors.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return UNCHECKED, _unchecked("pip-audit gave no report", last)
    flaws = [f"{one['name']} {one['version']}: {flaw['id']}" for one in found for flaw in one.get("vulns", ())]
    skipped = [one for one in found if "skip_reason" in one]
    if flaws:
        return 1, "known flaws:\n" + "".join(f"  {each}\n" for each in flaws)
    if skipped or not found:
        reason = skipped[0]["skip_reason"] if skipped else "the report is empty"
        return UNCHECKED, _unchecked(f"{len(skipped)} of {len(found)} requirements could not be looked up", reason)
    return 0, f"advisories: nothing found for {len(found)} requirements"


def _unchecked(title: str, reason: str) -> str:
    return (
        f"advisories: NOT CHECKED: {title}\n  for example: {reason[:200]}\n"
        "  Run `make audit` where the advisory database can be reached; `make audit-offline` needs no network."
    )


def main(words: list[str]) -> int:
    """Check, say what was found, and give the exit code."""
    parts = {
        "the lock": check_lock(LOCK.read_text(encoding="utf-8")),
        "licences": check_licences(),
        "bandit": check_source(),
    }
    for name, found in parts.items():
        print(f"{name}: {'nothing found' if not found else ''}")
        print("".join(f"  {each}\n" for each in found), end="")
    code = int(any(parts.values()))
    if "--offline" not in words:
        reached, said = check_advisories()
        print(said)
        code = code or reached
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
