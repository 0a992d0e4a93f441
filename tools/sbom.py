"""Write a CycloneDX list of what stepwell needs at run time, from the metadata of what is installed.

`python -m tools.sbom [FILE]`: to a file, or to stdout. The same environment gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

ROOT: Final = "stepwell"
EXTRAS: Final = ("encryption", "postgres", "redis", "server", "otel", "metrics")


def plain_name(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(found: Distribution) -> str:
    """The licence that a distribution declares, or the title of the one it brings; empty if it does not say."""
    facts: Any = found.metadata  # a message of `email`, which its type does not say
    said = facts.get("License-Expression") or ""
    classified = [
        text.rpartition(" :: ")[2] for text in facts.get_all("Classifier") or [] if text.startswith("License")
    ]
    short = (facts.get("License") or "").strip().partition("\n")[0]
    declared = said or " OR ".join(each for each in classified if each != "OSI Approved") or short[:100]
    return declared or _title_of_licence(found)


def _title_of_licence(found: Distribution) -> str:
    """The first line of the licence that a distribution brings along as a file."""
    for file in found.files or ():
        if file.name.upper().startswith("LICEN") and ".dist-info" in file.parts[0]:
            lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
            return next((line for line in lines if line), "")[:100]
    return ""


def needs_of(found: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """What a distribution needs here, with these extras of it."""
    wanted = ("", *extras)
    for text in found.requires or ():
        need = Requirement(text)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in wanted):
            yield need


def collect() -> dict[str, tuple[Distribution, set[str]]]:
    """Everything that is needed at run time and installed, with the names of what each of them needs."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    todo: list[tuple[str, tuple[str, ...]]] = [(ROOT, EXTRAS)]
    while todo:
        name, extras = todo.pop()
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        needs = list(needs_of(one, extras))
        _, known = found.setdefault(plain_name(name), (one, set()))
        new = {plain_name(need.name) for need in needs} - known
        known |= new
        todo += [(need.name, tuple(need.extras)) for need in needs if plain_name(need.name) in new]
    return found


def describe(found: dict[str, tuple[Distribution, set[str]]]) -> dict[str, Any]:
    """The document."""
    refs = {name: f"pkg:pypi/{name}@{one.version}" for name, (one, _) in found.items()}
    components = {name: _component(name, one, refs[name]) for name, (one, _) in sorted(found.items())}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**components[ROOT], "type": "application"}},
        "components": [each for name, each in components.items() if name != ROOT],
        "dependencies": [
            {"ref": refs[name], "dependsOn": sorted(refs[need] for need in needs if need in refs)}
            for name, (_, needs) in sorted(found.items())
        ],
    }


def _component(name: str, one: Distribution, ref: str) -> dict[str, Any]:
    licence = licence_of(one)
    made = {"type": "library", "bom-ref": ref, "name": name, "version": one.version, "purl": ref}
    return {**made, "licenses": [{"license": {"name": licence}}]} if licence else made


def main(words: list[str]) -> int:
    """Write the list."""
    text = json.dumps(describe(collect()), indent=2, sort_keys=True) + "\n"
    if not words:
        sys.stdout.write(text)
        return 0
    file = Path(words[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"wrote {file}: {len(collect()) - 1} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
