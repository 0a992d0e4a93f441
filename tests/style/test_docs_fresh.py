"""What the documents say is true today: examples compile, commands and links exist, generated pages are fresh."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.style.tree import ROOT, name_of, project_files
from tools import docs, sync_side

FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)\s]*)?\)")
PAGES = [path for path in project_files() if path.suffix == ".md"]


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_there_is_a_readme_with_an_example_and_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert "python" in [fence["language"] for fence in FENCE.finditer(readme)]
    assert "make demo" in readme
    assert "make test" in readme


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_examples_compile(page: Path) -> None:
    for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
        if fence["language"] == "python":
            compile(fence["body"], name_of(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    spans = [fence["body"] for fence in FENCE.finditer(text)] + re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    named = {target for span in spans for target in re.findall(r"(?:^|[\s;&(])make ([a-z-]+)", span)}

    assert named - make_targets() == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    targets = {link["target"] for link in LINK.finditer(text) if "://" not in link["target"]}

    assert {target for target in targets if not (page.parent / target).exists()} == set()


def test_generated_pages_are_fresh() -> None:
    assert docs.stale() == [], "run `make docs`"


def test_the_synchronous_classes_are_what_the_asynchronous_ones_say() -> None:
    assert sync_side.stale() == [], "run `make docs`"


def test_a_synchronous_class_that_was_changed_by_hand_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_side, "_read", lambda target: sync_side.write_target(target) + "# by hand\n")

    assert sync_side.stale() == [f"src/{target.file}" for target in sync_side.TARGETS]
