"""The tree drawn at the top of `stepwell.errors` is the tree of its classes."""

from __future__ import annotations

import inspect
import re
from collections import Counter

from stepwell import errors

ROOT_NAME = "StepwellError"
BRANCH = re.compile(r"^ {4}(?P<rails>[│ ]*)[├└]── (?P<name>\w+)(?:\s+(?P<code>SW\d{3}))?\b")


def drawn() -> dict[str, tuple[str, str | None]]:
    """Name → (parent, code), as the docstring draws it."""
    tree: dict[str, tuple[str, str | None]] = {}
    ancestors = [ROOT_NAME]
    for line in (errors.__doc__ or "").splitlines():
        if branch := BRANCH.match(line):
            depth = len(branch["rails"]) // 4 + 1
            del ancestors[depth:]
            tree[branch["name"]] = (ancestors[-1], branch["code"])
            ancestors.append(branch["name"])
    return tree


def declared() -> list[type[errors.StepwellError]]:
    classes = [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if member.__module__.startswith(errors.__name__)
    ]
    return [member for member in classes if issubclass(member, errors.StepwellError)]


def test_the_drawn_parents_are_the_base_classes() -> None:
    real = {member.__name__: member.__bases__[0].__name__ for member in declared() if member.__name__ != ROOT_NAME}

    assert {name: parent for name, (parent, _) in drawn().items()} == real


def test_the_drawn_codes_are_the_codes_of_the_classes() -> None:
    real = {member.__name__: member.code for member in declared()}
    drawn_codes = {name: code for name, (_, code) in drawn().items() if code}

    assert drawn_codes == {name: real.get(name) for name in drawn_codes}


def test_every_leaf_is_drawn_with_its_code() -> None:
    tree = drawn()
    parents = {parent for parent, _ in tree.values()}

    assert [name for name, (_, code) in tree.items() if name not in parents and code is None] == []


def test_every_error_has_a_code_of_its_own() -> None:
    without = [member.__name__ for member in declared() if "code" not in vars(member)]
    twice = [code for code, count in Counter(member.code for member in declared()).items() if count > 1]

    assert without == []
    assert twice == []


def test_what_authors_raise_is_listed_below_the_tree() -> None:
    listed = set(re.findall(r"`(\w+)`", (errors.__doc__ or "").partition("Raised *by* authors")[2]))
    real = {
        name
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if member.__module__.startswith(errors.__name__) and not issubclass(member, errors.StepwellError)
    }

    assert listed == real


def test_every_error_says_what_it_means() -> None:
    assert [member.__name__ for member in declared() if not (member.__doc__ or "").strip()] == []
