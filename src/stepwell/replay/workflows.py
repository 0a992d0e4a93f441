"""`@workflow`: functions whose runs survive their process."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, get_args, overload

from stepwell.codec.signatures import MISSING, Signature, hints_of
from stepwell.errors import InvalidOptionError
from stepwell.model.locations import check_name
from stepwell.model.retries import Retry
from stepwell.model.schedules import Schedule, by_name
from stepwell.replay.parameters import check_context, takes
from stepwell.replay.signals import MailboxRules, Signal, Unread, mailbox_rules
from stepwell.replay.step_options import qualified_name

if TYPE_CHECKING:
    from stepwell.replay.context import Context
    from stepwell.replay.sync_context import SyncContext

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)
Given = TypeVar("Given", covariant=True)

ANY_MAIL: Final = MailboxRules()
OperationNames = Literal["numbered", "unique"]


class Workflow(Generic[In, Out]):
    """A registered workflow function with its name and version."""

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str,
        version: int,
        mailbox: MailboxRules = ANY_MAIL,
        schedules: Iterable[Schedule] = (),
        names: OperationNames = "numbered",
        retry: Retry | None = None,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.name = check_name(name, what="workflow name")
        self.version = version
        self.mailbox = mailbox
        if names not in get_args(OperationNames):
            raise InvalidOptionError(f"names of workflow {name!r} is {names!r}", fix='use "numbered" or "unique"')
        self.has_unique_names = names == "unique"
        self.retry = _check_retry(retry, name)
        self.is_plain = not inspect.iscoroutinefunction(fn)  # a `def`, which runs on a lockstep thread
        if "@" in name or version < 1:
            raise InvalidOptionError(
                f"workflow {name!r} has version {version}" if version < 1 else f"workflow name {name!r} contains @",
                where=qualified_name(fn),
                why="records refer to a workflow as name@version, and versions start at 1",
                fix='write: @workflow(name="checkout", version=1)',
            )
        signature = hints_of(fn)
        _check_surface(fn, signature, name, is_plain=self.is_plain)
        check_context(fn, signature, name, is_plain=self.is_plain)
        parameters = signature.parameters
        if len(parameters) > 2:
            raise InvalidOptionError(
                f"workflow {name!r} takes {len(parameters)} parameters",
                where=qualified_name(fn),
                why="a workflow takes its context and at most one input",
                fix="put the values into one dataclass",
            )
        inputs = parameters[1:]
        self.takes_input = bool(inputs)
        self.input_hint: Any = inputs[0].hint if inputs else None
        self.input_default: Any = inputs[0].default if inputs else MISSING
        self.output_hint: Any = signature.returns
        self.schedules: Mapping[str, Schedule] = by_name(schedules, name)

    @property
    def is_pattern(self) -> bool:
        """Whether it serves every name that begins like its own: `@workflow(name="tenant-*")`."""
        return self.name.endswith("*")

    def called(self, name: str) -> Workflow[In, Out]:
        """The same code under a name that this pattern serves."""
        other = copy.copy(self)
        other.name = check_name(name, what="workflow name")
        return other

    @property
    def discards(self) -> bool:
        """Whether signals that its runs leave unread are dropped."""
        return self.mailbox.unread == "discard"

    @property
    def definition(self) -> str:
        """Name and version, as `name@version`."""
        return f"{self.name}@{self.version}"

    @overload
    def __call__(self, ctx: Context, *args: Any) -> Coroutine[Any, Any, Out]: ...
    @overload
    def __call__(self, ctx: SyncContext, *args: Any) -> Out: ...
    def __call__(self, ctx: Any, *args: Any) -> Any:
        """Call the function itself; nothing is registered or started."""
        return self.fn(ctx, *args)

    def __repr__(self) -> str:
        return f"<workflow {self.definition}>"


def _check_retry(retry: Any, name: str) -> Retry | None:
    if retry is None or isinstance(retry, Retry):
        return retry
    raise InvalidOptionError(
        f"retry of workflow {name!r} is {retry!r:.60}", where=name, fix='write: @workflow(retry=Retry(initial="1m"))'
    )


def _check_surface(fn: Callable[..., Any], signature: Signature, name: str, *, is_plain: bool) -> None:
    """Reject a function that cannot be a workflow, and a context that does not match its kind."""
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn) or not callable(fn):
        raise InvalidOptionError(
            f"workflow {name!r} is not a function that returns its result",
            where=qualified_name(fn),
            why="a generator cannot be replayed",
            fix="write `async def` with a Context, or `def` with a SyncContext",
        )
    wrong, right = ("Context", "SyncContext") if is_plain else ("SyncContext", "Context")
    if takes(signature, wrong):
        word, other = ("def", "async def") if is_plain else ("async def", "def")
        raise InvalidOptionError(
            f"workflow {name!r} is a `{word}` and takes a {wrong}",
            where=qualified_name(fn),
            why=f"a `{word}` gets a {right}, whose operations {'return their results' if is_plain else 'are awaited'}",
            fix=f"annotate the context as {right}, or write `{other}`",
        )


class DefinedWorkflow(Workflow[Given, Out]):  # type: ignore[type-var]  # pyright: ignore[reportInvalidTypeArguments]
    """What `@workflow` returns. It behaves like any `Workflow`.

    It exists for type checkers: `[checkout, refund]` is a list of workflows, whatever inputs they take. A list of types
    that differ in a contravariant parameter would be a list of objects.
    """


class WorkflowDecorator:
    """What `@workflow(...)` returns."""

    def __init__(
        self,
        name: str | None,
        version: int,
        mailbox: MailboxRules = ANY_MAIL,
        schedules: tuple[Schedule, ...] = (),
        names: OperationNames = "numbered",
        retry: Retry | None = None,
    ) -> None:
        self._name = name
        self._version = version
        self._mailbox = mailbox
        self._schedules = schedules
        self._names: OperationNames = names
        self._retry = retry

    @overload
    def __call__(self, fn: Callable[[Context], Coroutine[Any, Any, Out]], /) -> DefinedWorkflow[None, Out]: ...
    @overload
    def __call__(self, fn: Callable[[Context, In], Coroutine[Any, Any, Out]], /) -> DefinedWorkflow[In, Out]: ...
    @overload
    def __call__(self, fn: Callable[[SyncContext], Out], /) -> DefinedWorkflow[None, Out]: ...
    @overload
    def __call__(self, fn: Callable[[SyncContext, In], Out], /) -> DefinedWorkflow[In, Out]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        return DefinedWorkflow(
            fn, self._name or fn.__name__, self._version, self._mailbox, self._schedules, self._names, self._retry
        )


@overload
def workflow(fn: Callable[[Context], Coroutine[Any, Any, Out]], /) -> DefinedWorkflow[None, Out]: ...
@overload
def workflow(fn: Callable[[Context, In], Coroutine[Any, Any, Out]], /) -> DefinedWorkflow[In, Out]: ...
@overload
def workflow(fn: Callable[[SyncContext], Out], /) -> DefinedWorkflow[None, Out]: ...
@overload
def workflow(fn: Callable[[SyncContext, In], Out], /) -> DefinedWorkflow[In, Out]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: int = 1,
    unread: Unread = "dead_letter",
    signals: Iterable[str | Signal[Any]] | None = None,
    schedule: Schedule | Iterable[Schedule] = (),
    names: OperationNames = "numbered",
    retry: Retry | None = None,
) -> WorkflowDecorator: ...
def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: int = 1,
    unread: Unread = "dead_letter",
    signals: Iterable[str | Signal[Any]] | None = None,
    schedule: Schedule | Iterable[Schedule] = (),
    names: OperationNames = "numbered",
    retry: Retry | None = None,
) -> Any:
    """Make a function a workflow: `@workflow`, or `@workflow(name="checkout", version=2)`.

    An `async def` takes a `Context` and awaits its operations; a `def` takes a `SyncContext`, and holds no thread while
    it waits. Both take at most one input after it.

    `name`: the name that runs, commands and filters use; the name of the function by default.
    `version`: new runs take the newest version that the engine knows, and runs keep the version they began with.
    `unread`: what happens to signals that a run leaves in its mailbox when it ends. "dead_letter" keeps them for
        `engine.signals.list_unread`. "discard" drops them, except the signals of a failed run, which may be retried.
        "continue" continues as new, with the same input, instead of completing: the next run gets the signals. "topic"
        publishes each as an event of the topic with its name, for one run, which the topic keeps for 7 days. A run that
        fails or is cancelled keeps them as with "dead_letter".
    `signals`: all signals that may be sent to its runs. An engine that knows the workflow rejects any other name, and
        checks the payload of a plain name against the type declared here.
    `schedule`: when to start it, such as `cron("0 6 * * 1-5", tz="Europe/Berlin")`, `every("5m")` or `at(...)`; several
        in a list, each with a name. A worker that starts creates and changes them, and pauses those that the code does
        not have any more (docs/schedules.md).
    `names`: "numbered" numbers a name that is used again in its scope: `charge`, `charge#2`. "unique" rejects it.
    `retry`: how often the whole run is tried if it fails, such as `Retry(max_attempts=3, initial="1m")`. Each attempt
        is a run of its own: it begins with the same input, after the steps of the attempt before were undone. A start
        with `retry=` has its own policy.

    Raises `InvalidOptionError` if the function does not take a context as its first parameter.
    """
    schedules = (schedule,) if isinstance(schedule, Schedule) else tuple(schedule)
    decorator = WorkflowDecorator(name, version, mailbox_rules(name, unread, signals), schedules, names, retry)
    return decorator if fn is None else decorator(fn)
