"""Spans of OpenTelemetry: one for each claim of a run, from claim to wait or end, and one for each attempt at a step.

A replayed step makes no span. The trace context of the start is stored with the run as a tag, so all its spans belong
to one trace, wherever and whenever the run is executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepwell.clock import SECOND, Span
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.commits import Commit
from stepwell.model.runs import NewRun, Run
from stepwell.model.tags import TRACE_TAG
from stepwell.redaction import redact
from stepwell.replay.bodies import Body

if TYPE_CHECKING:
    from opentelemetry.trace import Span as TraceSpan
    from opentelemetry.trace import TracerProvider

_BAD: Final = frozenset({"failed", "timed_out", "compensated", "compensation_failed", "paused"})


class _Mark(NamedTuple):
    span: TraceSpan
    token: Any  # restores the previous context


class Traces:
    """Spans for the runs that an engine starts and executes. Without `provider`, the provider of the process is used.

        engine = Engine("sqlite:///shop.db", workflows=[checkout], hooks=[Traces()])

    Needs `pip install "stepwell[otel]"`. Spans carry names, ids, keys, paths and the messages of exceptions, with
    known secrets masked. They carry no payload, unless an exception quotes one in its message.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import context, trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise InvalidOptionError(
                "OpenTelemetry is not installed", why=str(error), fix='pip install "stepwell[otel]"'
            ) from None
        self._context, self._trace = context, trace
        self._propagate = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("stepwell", tracer_provider=provider)
        self._run_spans: dict[RunId, TraceSpan] = {}

    # --- called by the engine and its worker ---

    def starting(self, new: NewRun) -> NewRun:
        """Store the trace context of the caller with the run."""
        facts = {"stepwell.run": new.run_id, "stepwell.workflow": new.workflow}
        with self._tracer.start_as_current_span(
            f"start {new.workflow}", kind=self._trace.SpanKind.PRODUCER, attributes=facts
        ):
            carried: dict[str, str] = {}
            self._propagate.inject(carried)
        if TRACE_TAG not in carried or any(name == TRACE_TAG for name, _ in new.tags):
            return new
        return new._replace(tags=tuple(sorted((*new.tags, (TRACE_TAG, carried[TRACE_TAG])))))

    def began(self, run: Run, *, is_fresh: bool) -> None:
        """A claim begins."""
        parent = dict(run.tags).get(TRACE_TAG)
        # Not the current context, which belongs to the code that started the worker.
        outside = self._context.Context()
        above = outside if parent is None else self._propagate.extract({TRACE_TAG: parent}, outside)
        facts: dict[str, str | int] = {
            "stepwell.run": run.run_id,
            "stepwell.workflow": run.workflow,
            "stepwell.version": run.version,
            "stepwell.epoch": run.epoch,
            **({} if run.key is None else {"stepwell.key": redact(run.key)}),
            **({} if run.parent is None else {"stepwell.parent": run.parent.run_id}),
        }
        self._run_spans[run.run_id] = self._tracer.start_span(
            f"run {run.workflow}", above, kind=self._trace.SpanKind.CONSUMER, attributes=facts
        )

    def resumed(self, run: Run, late: Span) -> None:
        """Its code continues."""
        span = self._run_spans.get(run.run_id)
        if span is not None:
            span.add_event("resumed", {"stepwell.late_seconds": late / SECOND})

    def body(self, body: Body) -> _Mark:
        """An attempt begins. Spans that its code makes are children of its span."""
        run_id, _, workflow, path, attempt = body.place
        run_span = self._run_spans.get(body.run.run_id)
        above = self._context.Context() if run_span is None else self._trace.set_span_in_context(run_span)
        span = self._tracer.start_span(
            f"step {path.rpartition('/')[2]}",
            above,
            attributes={
                "stepwell.run": run_id,
                "stepwell.workflow": workflow,
                "stepwell.path": path,
                "stepwell.attempt": attempt,
            },
        )
        return _Mark(span, self._context.attach(self._trace.set_span_in_context(span, above)))

    def body_ended(self, body: Body, mark: _Mark | None, outcome: str, error: BaseException | None) -> None:
        """An attempt ended."""
        if mark is None:
            return
        self._context.detach(mark.token)
        if error is not None:
            # Not `record_exception`: the traceback of an error may quote secret values.
            said = {"exception.type": type(error).__qualname__, "exception.message": redact(str(error))}
            mark.span.add_event("exception", said)
        self._end(mark.span, outcome)

    def left(self, run: Run, outcome: str) -> None:
        """A claim ends."""
        span = self._run_spans.pop(run.run_id, None)
        if span is not None:
            self._end(span, outcome)

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        """A batch belongs to many runs, so it has no span."""

    def _end(self, span: TraceSpan, outcome: str) -> None:
        span.set_attribute("stepwell.outcome", outcome)
        if outcome in _BAD:
            span.set_status(self._trace.StatusCode.ERROR, outcome)
        span.end()
