"""`stepwell view`: named filters for `stepwell ls`: save, list, show and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.bodies import saved_view_body
from stepwell.cli.client import ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean, moment, shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.engine.saved_views import SavedView

_COLUMNS = (
    Column("VIEW", is_fixed=True),
    Column("OF", is_fixed=True),
    Column("FILTER"),
    Column("SORT", dropped=1),
    Column("COLUMNS", dropped=2),
)
_SHARED = click.option("--shared", is_flag=True, help="The view that all people share, instead of your own.")


@click.group("view", cls=Group)
def view() -> None:
    """Save filters under names, your own or shared, for `stepwell ls --view`.

    \b
    Example:
      stepwell view save slow 'took:>1h since:24h' --sort -took
      stepwell ls --view slow
    """


@command("save")
@click.argument("name", metavar="VIEW")
@click.argument("filter", metavar="[FILTER]", default="")
@click.option("--columns", "-c", default="", metavar="A,B", help="What `ls` shows, such as key,status,attr.amount.")
@click.option("--sort", default="", metavar="FIELD", help="Such as took or attr.amount; -took has the greatest first.")
@_SHARED
@by_option
def _save(settings: Settings, name: str, filter: str, columns: str, sort: str, shared: bool, by: str) -> None:
    """Save a filter under a name, in place of a view that has it.

    \b
    Example:
      stepwell view save slow 'took:>1h since:24h' --sort -took --columns key,workflow,took
      stepwell view save attention 'status:failed,paused' --shared
    """
    chosen = [column.strip() for column in columns.split(",") if column.strip()]
    owner = None if shared else by
    saved = ask(
        settings,
        lambda client: client.engine.saved_views.save(name, filter, columns=chosen, sort=sort, owner=owner, by=by),
    )
    line = clean(f"Saved: stepwell ls --view {shell_word(name)}")
    Output(settings).one("stepwell.view/1", saved_view_body(saved), run_ids=[], words=lambda: [line])


@command("ls")
@by_option
def _ls(settings: Settings, by: str) -> None:
    """List your views and the shared ones, by name. Your own view hides a shared one of its name.

    \b
    Example:
      stepwell view ls
    """
    found = ask(settings, lambda client: client.engine.saved_views.list(owner=by))
    out = Output(settings)
    if out.many("stepwell.view/1", "views", [saved_view_body(one) for one in found], run_ids=[]):
        return
    if not found:
        out.note("No view is saved. Save one: stepwell view save NAME FILTER")
        return
    out.table(_COLUMNS, [[one.name, _whose(one), _what(one), one.sort, ", ".join(one.columns)] for one in found])


@command("show")
@click.argument("name", metavar="VIEW")
@by_option
def _show(settings: Settings, name: str, by: str) -> None:
    """Show one view: your own of that name, or else the shared one.

    \b
    Example:
      stepwell view show slow
    """
    found = ask(settings, lambda client: client.engine.saved_views.get(name, owner=by))

    def words() -> Iterator[str]:
        yield clean(f"{found.name}  {_whose(found)}")
        yield clean(f"  filter   {found.filter or 'none: all runs'}")
        yield clean(f"  sort     {found.sort or 'newest first'}")
        yield clean(f"  columns  {', '.join(found.columns) or 'those of ls'}")
        yield clean(f"  saved    {moment(found.saved_at)} UTC by {found.by}")

    Output(settings).one("stepwell.view/1", saved_view_body(found), run_ids=[], words=words)


@command("delete")
@click.argument("name", metavar="VIEW")
@_SHARED
@by_option
def _delete(settings: Settings, name: str, shared: bool, by: str) -> None:
    """Delete your view of that name, or with --shared the shared one.

    \b
    Example:
      stepwell view delete slow
    """
    ask(settings, lambda client: client.engine.saved_views.delete(name, owner=None if shared else by, by=by))
    body = {"view": name, "verb": "delete", "changed": True}
    Output(settings).one("stepwell.act/1", body, run_ids=[], words=lambda: [clean(f"View {name} is deleted")])


for each in (_save, _ls, _show, _delete):
    view.add_command(each)


def _what(one: SavedView) -> str:
    return f"cannot be read: {one.unreadable}" if one.unreadable else one.filter


def _whose(one: SavedView) -> str:
    return "all" if one.owner is None else one.owner
