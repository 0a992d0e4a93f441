"""The audit of dependencies: "not checked" is never taken for "nothing found"; the list of components is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.audit import LOCK, UNCHECKED, check_licences, check_lock, judge
from tools.sbom import collect, describe

ROOT = Path(__file__).parents[2]
HASH = f"--hash=sha256:{'a' * 64}"


def report(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(dependencies), "fixes": []})


GOOD = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found and could not be audited: b (1)"}
FLAWED = {"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": [], "aliases": []}]}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (report(GOOD), 0),
        (report(GOOD, SKIPPED), UNCHECKED),
        (report(SKIPPED), UNCHECKED),
        (report(), UNCHECKED),
        ("", UNCHECKED),
        ("null", UNCHECKED),
        (report(FLAWED), 1),
        (report(FLAWED, SKIPPED), 1),
    ],
)
def test_only_a_report_about_every_requirement_is_a_pass(said: str, code: int) -> None:
    found, words = judge(said, "ConnectionError")

    assert found == code
    assert ("NOT CHECKED" in words) == (code == UNCHECKED)


@pytest.mark.parametrize("line", ["a", "a>=1", "a==1", "a @ https://example.com/a.whl", "-r other.txt", "-e ."])
def test_a_requirement_without_version_and_hash_is_found(line: str) -> None:
    assert len(check_lock(f"ok==1 \\\n    {HASH}\n{line}\n")) == 1


def test_the_lock_and_the_licences_have_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert check_lock(LOCK.read_text(encoding="utf-8")) == []
    assert check_licences() == []


def test_the_list_of_components_has_every_dependency_once_and_only_known_references() -> None:
    found = describe(collect())
    refs = [each["bom-ref"] for each in found["components"]]
    known = {*refs, found["metadata"]["component"]["bom-ref"]}

    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert len(refs) == len(set(refs))
    assert {"apsw", "click", "msgspec", "rich", "starlette", "uvicorn", "h11"} <= {
        each["name"] for each in found["components"]
    }
    assert all({each["ref"], *each["dependsOn"]} <= known for each in found["dependencies"])
    assert describe(collect()) == found
