"""Annotations that name types which cannot be stored."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stepwell.check.findings import Finding
from stepwell.check.rules import UNSTORABLE
from stepwell.check.sources import Source, find_scopes, text_of, walk_own
from stepwell.codec.base import Codec, Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.signatures import hints_of
from stepwell.errors import StepwellError
from stepwell.replay.steps import Step
from stepwell.replay.workflows import Workflow


def find_unstorable(
    source: Source, workflows: Iterable[Workflow[Any, Any]], codec: Codec | None = None
) -> Iterator[Finding]:
    """Inputs and results of the workflows of a file, and of their steps, that cannot be stored."""
    using = codec or JsonCodec()
    mine = [workflow for workflow in workflows if _file_of(workflow.fn) == source.path]
    for workflow in mine:
        if workflow.takes_input:
            yield from _try(using, workflow.input_hint, workflow.fn, workflow.name, "the input")
        yield from _try(using, workflow.output_hint, workflow.fn, workflow.name, "the result")
    for fn, given in _steps_of(source, mine).values():
        signature = hints_of(fn)
        yield from _try(using, signature.returns, fn, fn.__name__, "the result")
        if isinstance(given, Step) and given.options_.compensate is not None:
            for parameter in signature.parameters[given.skip :]:
                yield from _try(using, parameter.hint, fn, fn.__name__, f"the parameter {parameter.name}")


def _steps_of(source: Source, workflows: list[Workflow[Any, Any]]) -> dict[int, tuple[Callable[..., Any], Any]]:
    """The functions that the workflow code of a file calls as steps, each with the object that it passes."""
    known: dict[str, Any] = {}
    for workflow in workflows:
        known |= getattr(workflow.fn, "__globals__", {})
    found: dict[int, tuple[Callable[..., Any], Any]] = {}
    for scope in find_scopes(source):
        for node in walk_own(scope):
            if not isinstance(node, ast.Call) or scope.operation(node) not in ("step", "try_step") or not node.args:
                continue
            named = node.args[1] if text_of(node.args[0]) is not None and len(node.args) > 1 else node.args[0]
            given = known.get(named.id) if isinstance(named, ast.Name) else None
            fn = getattr(given, "__wrapped__", given)
            if callable(fn) and hasattr(fn, "__code__"):
                found[id(fn)] = fn, given
    return found


def _try(codec: Codec, hint: Any, fn: Any, name: str, what: str) -> Iterator[Finding]:
    try:
        codec.prepare(hint, place=Place(name, "", what))
    except StepwellError as error:
        fix = error.fix or "annotate it with a type that can be stored, such as str, and convert inside the step"
        yield Finding(
            _file_of(fn),
            fn.__code__.co_firstlineno,
            1,
            UNSTORABLE.code,
            UNSTORABLE.severity,
            name,
            f"{what} of {name} cannot be stored: {error.why or error.title}",
            fix,
        )


def _file_of(fn: Any) -> str:
    code = getattr(fn, "__code__", None)
    return code.co_filename if code is not None else ""
