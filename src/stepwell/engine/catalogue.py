"""The catalogue: what is known of a workflow from its code, as plain data that another process can be told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

import msgspec

from stepwell.codec.base import Place
from stepwell.codec.plans import plan_for
from stepwell.codec.signatures import MISSING
from stepwell.errors import StepwellError
from stepwell.replay.signals import Signal
from stepwell.replay.workflows import Workflow

_DEPTH_MAX: Final = 8  # of an example
_TEXTS: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T09:30:00Z",
    "time": "09:30:00",
    "duration": "PT1H",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "decimal": "1.50",
}

Schema = dict[str, Any]


class SignalFacts(msgspec.Struct, frozen=True):
    """A signal that a workflow declares, with the JSON Schema of its payload."""

    name: str
    payload: Schema | None


class WorkflowFacts(msgspec.Struct, frozen=True):
    """One version of a workflow, as its code describes it. A type without a JSON Schema is None.

    `sample` is an input that fits the schema, to begin with; `source` is the file and the line.
    """

    name: str
    version: int
    takes_input: bool
    needs_input: bool
    input: Schema | None
    output: Schema | None
    signals: tuple[SignalFacts, ...] | None  # None if any signal may be sent
    summary: str
    source: str
    sample: Any

    @property
    def definition(self) -> str:
        """Name and version, as `name@version`."""
        return f"{self.name}@{self.version}"


def describe_workflow(workflow: Workflow[Any, Any]) -> WorkflowFacts:
    """What the code of a workflow tells."""
    declared = workflow.mailbox.declared
    schema = schema_of(workflow.input_hint) if workflow.takes_input else None
    return WorkflowFacts(
        workflow.name,
        workflow.version,
        workflow.takes_input,
        workflow.takes_input and workflow.input_default is MISSING,
        schema,
        schema_of(workflow.output_hint),
        None if declared is None else tuple(_describe_signal(name, each) for name, each in declared.items()),
        (workflow.__doc__ or "").strip().partition("\n")[0],
        _source_of(workflow),
        None if schema is None else sample_of(schema),
    )


def _describe_signal(name: str, signal: str | Signal[Any]) -> SignalFacts:
    return SignalFacts(name, schema_of(signal.hint) if isinstance(signal, Signal) else None)


def _source_of(workflow: Workflow[Any, Any]) -> str:
    code = getattr(workflow.fn, "__code__", None)
    return "" if code is None else f"{PurePath(code.co_filename).name}:{code.co_firstlineno}"


def schema_of(hint: Any) -> Schema | None:
    """The JSON Schema of a type; None if it has none."""
    try:
        plan_for(hint, Place("", "", "the schema"))
        return msgspec.json.schema(hint, schema_hook=lambda _: {})
    except (TypeError, ValueError, StepwellError):
        return None


def sample_of(schema: Schema) -> Any:
    """A value for a JSON Schema: its defaults, and otherwise the simplest value of each required field."""
    return _sample(schema, schema.get("$defs", {}), _DEPTH_MAX)


def _sample(schema: Schema, names: Mapping[str, Schema], depth: int) -> Any:
    reference = schema.get("$ref")
    if reference is not None:
        return _sample(names.get(str(reference).rpartition("/")[2], {}), names, depth - 1) if depth > 0 else None
    for word in ("default", "const"):
        if word in schema:
            return schema[word]
    for word in ("enum", "examples"):
        if schema.get(word):
            return schema[word][0]
    for word in ("anyOf", "oneOf"):
        if schema.get(word):
            return _sample(schema[word][0], names, depth - 1) if depth > 0 else None
    match schema.get("type"):
        case "object":
            fields, needed = schema.get("properties", {}), schema.get("required", ())
            return {name: _sample(fields.get(name, {}), names, depth - 1) for name in needed if depth > 0}
        case "array":
            items = schema.get("prefixItems", [])
            return [_sample(item, names, depth - 1) for item in items if depth > 0]
        case "string":
            return _TEXTS.get(schema.get("format", ""), "")
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case _:
            return None
