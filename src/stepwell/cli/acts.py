"""Acts on runs: the part that all steering commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepwell.advice import Advice, Verb
from stepwell.cli.bulk import RunSelection, act_on_many, check_choice
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import get_run_id
from stepwell.cli.texts import clean
from stepwell.errors import InvalidMoveError

if TYPE_CHECKING:
    from stepwell.engine.bulk_verbs import BulkVerb


class Act(NamedTuple):
    """What a command does to one run or to many, and the words for it."""

    verb: str  # its name in `engine.bulks`
    options: dict[str, Any]
    done: str  # "Resumed"
    impossible: str  # "be resumed"
    needs: str  # "a paused run"

    @property
    def how(self) -> BulkVerb:
        """How it is done to one run."""
        from stepwell.engine.bulk_verbs import VERBS

        return VERBS[self.verb]


def act_on(settings: Settings, which: RunSelection, act: Act) -> int:
    """Act on the chosen runs, print the result, and return the exit code.

    One run is acted on here; raises `InvalidMoveError` if its status does not allow the act. For many runs, a run of
    `stepwell.bulk` does the work, and the results are counted.
    """
    check_choice(which)
    if not which.is_one:
        return act_on_many(settings, which, act)
    target = which.run or ""

    async def run(client: Client) -> tuple[str, str, bool]:
        run_id = await get_run_id(client, target)
        is_done = await act.how.act(client.engine, run_id, act.options, which.by)
        view = await client.engine.status(run_id)
        assert view is not None
        if not is_done and not act.how.was_done(view):
            raise InvalidMoveError(
                f"run {run_id} is {view.status} and cannot {act.impossible}",
                where=run_id,
                why=f"this needs {act.needs}",
                fix=Advice(Verb.WHY, run_id),
            )
        return run_id, view.status, is_done

    run_id, status, is_done = ask(settings, run)
    out = Output(settings)
    words = act.done if is_done else f"{act.done} before"
    line = clean(f"{words}: run {run_id} is {show_status(status, ascii=out.ascii)}")
    body = {"run_id": run_id, "status": status, "changed": is_done}
    out.one("stepwell.act/1", body, run_ids=[run_id], words=lambda: [line])
    return 0
