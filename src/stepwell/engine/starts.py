"""Starts: the options of a start, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypedDict

from stepwell.clock import Duration, Instant, span
from stepwell.codec.base import Codec, Place, Row
from stepwell.codec.carried import encode_headers
from stepwell.codec.signatures import MISSING
from stepwell.errors import AlreadyExistsError, InvalidInputError, InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.attributes import AttributeValue, read_attributes, read_person, read_title
from stepwell.model.headers import Headers
from stepwell.model.locations import check_name
from stepwell.model.retries import Retry
from stepwell.model.run_retries import read_retry
from stepwell.model.runs import Created, NewRun, OnConflict, normal_key
from stepwell.model.starts import FOREVER, Deadline, check_options, check_priority, positive, read_deadline
from stepwell.model.tags import TRACE_TAG, TagsLike, read_tags, without_tags
from stepwell.replay.workflows import Workflow


class StartManyOptions(TypedDict, total=False):
    """The options of every start; see `Engine.start`."""

    on_conflict: OnConflict
    dedup: Duration
    delay: Duration
    priority: int
    tags: TagsLike
    deadline: Deadline | None
    max_suspend: Duration | None
    attributes: Mapping[str, AttributeValue]
    title: str | None
    by: str
    headers: Mapping[str, str]
    retry: Retry | Mapping[str, Any] | None


class StartOptions(StartManyOptions, total=False):
    """The options of one start; see `Engine.start`."""

    key: str | None
    run_id: str | None
    transaction: Any


class Start(NamedTuple):
    """One of several starts. A field that is None has the value that the call gives for all."""

    input: Any = None
    key: str | None = None
    run_id: str | None = None
    priority: int | None = None
    tags: TagsLike | None = None
    deadline: Deadline | None = None
    max_suspend: Duration | None = None
    attributes: Mapping[str, AttributeValue] | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options of a call, with their defaults."""

    on_conflict: OnConflict = "get"
    dedup: Duration = "24h"
    delay: Duration = 0
    priority: int = 0
    tags: TagsLike = frozenset()
    deadline: Deadline | None = None
    max_suspend: Duration | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    title: str | None = None
    by: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry: Retry | Mapping[str, Any] | None = None

    @classmethod
    def of(cls, options: StartManyOptions) -> Self:
        """The plan of given options. Raises `InvalidOptionError` for unknown ones."""
        check_options(options, _START_OPTIONS, "start")
        return cls(**options)

    def new_run(self, workflow: str, version: int, run_id: RunId, stored: bytes, start: Start, now: Instant) -> NewRun:
        """The run to create. Raises `InvalidOptionError` or `InvalidKeyError` for invalid options."""
        if self.on_conflict not in ("get", "raise", "replace"):
            raise InvalidOptionError(
                f"on_conflict is {self.on_conflict!r}", where=workflow, fix='"get", "raise" or "replace"'
            )
        delay = min(span(self.delay, what="delay"), FOREVER)
        deadline = self.deadline if start.deadline is None else start.deadline
        max_suspend = self.max_suspend if start.max_suspend is None else start.max_suspend
        title = self.title if start.title is None else start.title
        attributes = self.attributes if start.attributes is None else start.attributes
        return NewRun(
            run_id,
            workflow,
            version,
            stored,
            None if start.key is None else normal_key(start.key),
            delay=delay,
            dedup=min(span(self.dedup, what="dedup"), FOREVER),
            own_id=start.run_id is None,
            priority=check_priority(self.priority if start.priority is None else start.priority, workflow),
            tags=read_tags(self.tags if start.tags is None else start.tags, workflow),
            deadline_at=None if deadline is None else read_deadline(deadline, now, delay, workflow),
            max_suspend=None if max_suspend is None else positive(max_suspend, "max_suspend", workflow),
            on_conflict=self.on_conflict,
            title=None if title is None else read_title(title, workflow),
            started_by=read_person(self.by, workflow) if self.by else None,
            attributes=read_attributes(attributes, workflow) if attributes else (),
            retry=None if self.retry is None else read_retry(self.retry, workflow),
        )


def check_run_id(given: str) -> RunId:
    """An id that a caller chose. Raises `InvalidOptionError` if it is spelled otherwise than a key."""
    check_name(given, what="run id")
    if given != normal_key(given):
        raise InvalidOptionError(f"run id {given!r} is not in lower case", fix=f"use {normal_key(given)!r}")
    return RunId(given)


_START_OPTIONS = (*StartOptions.__annotations__, *StartManyOptions.__annotations__)


class Started(NamedTuple):
    """What the store needs to know of a workflow to start it."""

    name: str
    version: int
    output_hint: Any
    discards: bool = False

    @classmethod
    def of(cls, workflow: Workflow[Any, Any]) -> Self:
        """The same, of a workflow that is registered here."""
        return cls(workflow.name, workflow.version, workflow.output_hint, workflow.discards)


def input_place(workflow: str, run_id: RunId) -> Place:
    """Where the input of a run is stored."""
    return Place(workflow, "", "the input", row=Row(run_id, "", "input"))


def encode_input(codec: Codec, definition: Workflow[Any, Any], value: Any, run_id: RunId) -> bytes:
    """The input of a run, checked against the annotation of its workflow. Raises `InvalidInputError`."""
    place = input_place(definition.name, run_id)
    if not definition.takes_input:
        if value is not None:
            raise InvalidInputError(f"workflow {definition.name!r} takes no input", where=definition.name)
        return codec.encode(None, place=place)
    if value is None and definition.input_default is not MISSING:
        value = definition.input_default
    hint = definition.input_hint
    return codec.encode(codec.validate(value, hint, place=place), hint, place=place)


def with_headers(codec: Codec, new: NewRun, headers: Headers) -> NewRun:
    """A run to create, with its headers. The context of a trace, which an observer has added as a tag, is one of them,
    unless the caller gave another one.
    """
    trace = {name: value for name, value in new.tags if name == TRACE_TAG}
    carried = {**trace, **headers}
    if not carried:
        return new
    stored = encode_headers(codec, carried, workflow=new.workflow, run_id=new.run_id)
    return new._replace(tags=without_tags(new.tags, trace), headers=stored)


def check_ids(created: Sequence[Created], new: Sequence[NewRun]) -> None:
    """Raise `AlreadyExistsError` for a run id that is taken."""
    for item, run in zip(created, new, strict=True):
        if item.is_duplicate_id:
            raise AlreadyExistsError(f"run id {run.run_id!r} is taken", fix="leave run_id out, or choose another")
