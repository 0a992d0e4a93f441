"""What a worker does, as spans of OpenTelemetry: one for each stretch of a run, and one for each attempt at a step.

A replay makes none: what is recorded is not done again. The context in which a run was started goes with it as a tag,
so its stretches belong to one trace, wherever and whenever they are executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepwell.clock import SECOND, Span
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.commits import Commit
from stepwell.model.runs import TRACE_TAG, NewRun, Run
from stepwell.redaction import redact
from stepwell.replay.bodies import Body

if TYPE_CHECKING:
    from opentelemetry.trace import Span as TraceSpan
    from opentelemetry.trace import TracerProvider

_BAD: Final = frozenset({"failed", "timed_out", "compensated", "compensation_failed", "paused"})


class _Mark(NamedTuple):
    span: TraceSpan
    token: Any  # what makes the context before it the current one again


class Traces:
    """Spans for what an engine starts and executes; without `provider`, for the one that the process has set up.

        engine = Engine("sqlite:///shop.db", workflows=[checkout], hooks=[Traces()])

    Needs `pip install "stepwell[otel]"`. Spans carry names, ids, keys, paths and the messages of exceptions,
    without known secrets. They carry no payload, unless an exception quotes one in its message.
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
        self._stretches: dict[RunId, TraceSpan] = {}

    # --- what the engine and its worker tell ---

    def starting(self, new: NewRun) -> NewRun:
        """Give a run its place in the trace of whoever starts it."""
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
        """A stretch begins."""
        parent = dict(run.tags).get(TRACE_TAG)
        # Not the current context: that is the one of whoever started the worker.
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
        self._stretches[run.run_id] = self._tracer.start_span(
            f"run {run.workflow}", above, kind=self._trace.SpanKind.CONSUMER, attributes=facts
        )

    def resumed(self, run: Run, late: Span) -> None:
        """Its code goes on."""
        span = self._stretches.get(run.run_id)
        if span is not None:
            span.add_event("resumed", {"stepwell.late_seconds": late / SECOND})

    def body(self, body: Body) -> _Mark:
        """An attempt begins: what its code traces is below it."""
        run_id, workflow, path, attempt = body.place
        stretch = self._stretches.get(body.run.run_id)
        above = self._context.Context() if stretch is None else self._trace.set_span_in_context(stretch)
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
            # Not `record_exception`: the traceback of an error quotes lines and values that nobody has looked at.
            said = {"exception.type": type(error).__qualname__, "exception.message": redact(str(error))}
            mark.span.add_event("exception", said)
        self._end(mark.span, outcome)

    def left(self, run: Run, outcome: str) -> None:
        """A stretch ends."""
        span = self._stretches.pop(run.run_id, None)
        if span is not None:
            self._end(span, outcome)

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        """A batch belongs to many runs, and to the trace of none."""

    def _end(self, span: TraceSpan, outcome: str) -> None:
        span.set_attribute("stepwell.outcome", outcome)
        if outcome in _BAD:
            span.set_status(self._trace.StatusCode.ERROR, outcome)
        span.end()
