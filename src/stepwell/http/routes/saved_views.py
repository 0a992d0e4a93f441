"""Operations on saved views: save, list, show and delete named filters, your own or shared."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stepwell.engine.facts import facts_of
from stepwell.engine.saved_views import COLUMNS_MAX, SavedView
from stepwell.http.fields import Name
from stepwell.http.operations import Call, FilterText, Operation, Reply, look
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of


class SavedViewBody(fields_of(SavedView)):  # type: ignore[misc]
    """A named filter. `owner` is the caller who has it; null if it is shared."""


class SavedViewList(msgspec.Struct):
    """The views of the caller, and the shared ones, by name."""

    views: list[SavedViewBody]


class SavedViewIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a view shows, and whether all callers share it."""

    filter: FilterText = ""
    columns: Annotated[list[Name], Meta(max_length=COLUMNS_MAX)] = []
    sort: Annotated[str, Meta(max_length=80)] = ""
    shared: bool = False


class WhoseQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The shared view of that name, instead of the caller's own."""

    shared: bool = False


async def list_views(call: Call) -> Reply:
    """The views that the caller can use."""
    found = await call.services.engine.saved_views.list(owner=call.caller.name)
    return Reply(SavedViewList([_body(call, one) for one in found]))


async def show(call: Call) -> Reply:
    """The caller's view of that name, or else the shared one."""
    return Reply(_body(call, await call.services.engine.saved_views.get(call.path["view"], owner=call.caller.name)))


async def save(call: Call) -> Reply:
    """Save a view, and replace any view of the same name."""
    body: SavedViewIn = call.body
    call.filter(body.filter, where="filter")
    saved = await call.services.engine.saved_views.save(
        call.path["view"],
        body.filter,
        columns=body.columns,
        sort=body.sort,
        owner=None if body.shared else call.caller.name,
        by=call.caller.name,
    )
    call.after = "saved"
    return Reply(_body(call, saved))


async def delete(call: Call) -> Reply:
    """Delete the caller's view, or the shared one."""
    owner = None if call.query.shared else call.caller.name
    found = await call.services.engine.saved_views.get(call.path["view"], owner=owner)
    await call.services.engine.saved_views.delete(call.path["view"], owner=owner, by=call.caller.name)
    call.after = "deleted"
    return Reply(_body(call, found))


def _body(call: Call, view: SavedView) -> SavedViewBody:
    return SavedViewBody(**{**facts_of(view, audience_of(call)), "filter": call.show_filter(view.filter)})


OPERATIONS = (
    look("/views", "list_views", list_views, "Saved views", {200: SavedViewList}),
    look("/views/{view}", "show_view", show, "One saved view", {200: SavedViewBody}),
    Operation(
        method="PUT",
        path="/views/{view}",
        name="save_view",
        permission=Permission.STEER,
        handler=save,
        summary="Save a view",
        answers={200: SavedViewBody},
        body=SavedViewIn,
    ),
    Operation(
        method="DELETE",
        path="/views/{view}",
        name="delete_view",
        permission=Permission.STEER,
        handler=delete,
        summary="Delete a saved view",
        answers={200: SavedViewBody},
        query=WhoseQuery,
    ),
)
