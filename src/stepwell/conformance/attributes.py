"""How runs are described: attributes, titles, tags and who started them; and listings by these."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, child_of, new_run, place, step, wait_signal
from stepwell.ids import RunId
from stepwell.model.attributes import (
    Attribute,
    AttributeKind,
    Attributes,
    Description,
    read_attribute,
    read_attributes,
    read_value,
)
from stepwell.model.commits import End, Park, Verdict
from stepwell.model.states import RunStatus
from stepwell.stores.base.filters import AttributeTest, Condition, Field, Order, Pattern, meets
from stepwell.stores.base.views import RunFilter

_A = AttributeTest
_HUGE = 2**70
_DUE = datetime(2026, 12, 1, tzinfo=UTC)
_GONE = Attribute("old", "")


def attributes(**values: Any) -> Attributes:
    """Attributes in their stored form."""
    return read_attributes(values, "")


def having(name: str, *values: Pattern, negated: bool = False) -> Condition:
    """A condition on an attribute."""
    return Condition(Field.ATTRIBUTE, values, negated, name)


def compared(test: AttributeTest, value: Any) -> Pattern:
    """One value of a condition."""
    return (test.value, read_attribute("x", value, "").value)


async def _values(scene: Scene, run_id: str) -> dict[str, Any]:
    return {one.name: read_value(one) for one in (await scene.run(run_id)).attributes}


class AttributeSuite(StoreCase):
    """Attributes, titles and tags, from the start of a run to its end."""

    async def test_a_run_has_what_it_was_started_with(self, scene: Scene) -> None:
        given = attributes(amount=Decimal("42.10"), big=_HUGE, due=_DUE, region="größe", vip=True)
        about: dict[str, Any] = {"title": "Order for Änn", "started_by": "ann", "attributes": given}
        turn = await scene.begin("alone", **about)
        await scene.create("later", key="k", **about)
        news = [new_run("one", **about), new_run("two", **about), new_run("three", title="three")]
        await scene.store.runs.create(news)
        # Its key is taken, so it fails at its start.
        await turn.commit(names=("x",), children=(child_of("alone", "refused", place(0), key="k", **about),))

        assert (turn.claimed.run.title, turn.claimed.run.started_by) == ("Order for Änn", "ann")
        assert turn.claimed.run.attributes == given
        for run_id in ("alone", "later", "one", "two", "refused"):
            run = await scene.run(run_id)
            assert (run.title, run.started_by, run.attributes) == ("Order for Änn", "ann", given)
        run = await scene.run("three")
        assert (run.title, run.started_by, run.attributes) == ("three", None, ())
        claimed = {one.run_id: one.claimed.run for one in await scene.claim()}
        assert claimed[RunId("one")].attributes == given
        assert await _values(scene, "one") == {
            "amount": Decimal("42.10"),
            "big": _HUGE,
            "due": _DUE,
            "region": "größe",
            "vip": True,
        }

    async def test_a_commit_changes_how_its_run_is_described(self, scene: Scene) -> None:
        turn = await scene.begin("r1", tags=(("vip", ""),), attributes=attributes(old="x", n=1), title="first")

        change = Description((*attributes(n=2, region="eu"), _GONE), "second", (("team", "blue"),))
        commit = turn.next(names=("a",), entries=(step(1, place(0)),), description=change)
        first, again = await turn.send(commit), await turn.send(commit)

        run = await scene.run("r1")
        assert (run.title, run.tags, run.attributes) == ("second", (("team", "blue"),), attributes(n=2, region="eu"))
        assert again == first

        await turn.commit(waits=(wait_signal("go"),), move=Park(None), description=Description(title=""))
        run = await scene.run("r1")
        assert (run.title, run.tags, run.attributes) == (None, (("team", "blue"),), attributes(n=2, region="eu"))
        assert run.status is RunStatus.WAITING

        await scene.send("s1", "r1")
        turn = await scene.claim_only("r1")
        assert turn.claimed.run.attributes == attributes(n=2, region="eu")
        await turn.end(output=b"done")
        assert await _values(scene, "r1") == {"n": 2, "region": "eu"}

    async def test_the_last_commit_of_a_run_can_describe_it(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.record("a")

        commit = turn.next(entries=(step(2, place(1)),), names=("b",), description=Description(attributes(n=1), "end"))
        await turn.send(commit._replace(move=End(RunStatus.COMPLETED, output=b"x")))

        run = await scene.run("r1")
        assert (run.status, run.title, run.attributes) == (RunStatus.COMPLETED, "end", attributes(n=1))

    async def test_a_commit_that_is_not_applied_describes_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1", attributes=attributes(n=1))
        commit = turn.next(description=Description(attributes(n=2), "no", (("no", ""),)))
        fence = turn.fence._replace(epoch=turn.fence.epoch + 1)

        assert (await turn.send(commit._replace(fence=fence))).verdict is Verdict.FENCED
        run = await scene.run("r1")
        assert (run.title, run.tags, run.attributes) == (None, (), attributes(n=1))

    async def test_the_types_of_an_attribute_are_known(self, scene: Scene) -> None:
        await scene.create("r1", attributes=attributes(a=1, b="x"))
        await scene.create("r2", attributes=attributes(a="x", c=_DUE))
        await scene.create("r3", attributes=attributes(a=-1.5, b=False))
        kinds = scene.store.views.list_attribute_kinds

        assert await kinds("a") == [AttributeKind.NUMBER, AttributeKind.TEXT]
        assert await kinds("b") == [AttributeKind.BOOLEAN, AttributeKind.TEXT]
        assert await kinds("c") == [AttributeKind.TIME]
        assert await kinds("d") == []


async def _fill(scene: Scene) -> None:
    """Runs with attributes of each type; `f` has none."""
    values: dict[str, dict[str, Any]] = {
        "a": {"n": 9, "s": "eu", "b": True, "w": _DUE},
        "b": {"n": Decimal("-0.5"), "s": "EU*", "b": False},
        "c": {"n": _HUGE, "s": "eu_west"},
        "d": {"n": _HUGE + 1, "s": "", "w": datetime(1969, 1, 1, tzinfo=UTC)},
        "e": {"n": Decimal("9.00"), "s": "größe"},
        "g": {"n": "9", "s": "n9"},
    }
    for run_id, given in values.items():
        await scene.create(run_id, attributes=attributes(**given), started_by=f"{run_id}nn", title=f"Order {run_id}")
    ended = await scene.begin("f", workflow="flow")
    await ended.end()


async def _list(scene: Scene, *conditions: Condition, **parts: Any) -> str:
    """The ids of the runs that meet the conditions, in a row."""
    limit, before = parts.pop("limit", 99), parts.pop("before", None)
    where = RunFilter(conditions=conditions, **parts)
    found = await scene.store.views.list_runs(where, limit=limit, before=before)
    if before is None and limit == 99:
        assert await scene.store.views.count_runs(where, limit=99) == len(found)
    return " ".join(run.run_id for run in found)


_COMPARED: tuple[tuple[str, Pattern, str], ...] = (
    ("n", compared(_A.IS, 9), "e a"),
    ("n", compared(_A.IS, 9.0), "e a"),
    ("n", compared(_A.IS, "9"), "g"),
    ("n", compared(_A.IS, _HUGE + 1), "d"),
    ("n", compared(_A.ABOVE, 9), "d c"),
    ("n", compared(_A.FROM, 9), "e d c a"),
    ("n", compared(_A.ABOVE, _HUGE), "d"),
    ("n", compared(_A.BELOW, 9), "b"),
    ("n", compared(_A.UP_TO, Decimal("9.0")), "e b a"),
    ("n", compared(_A.BELOW, Decimal("-0.5")), ""),
    ("n", compared(_A.UP_TO, Decimal("-0.5")), "b"),
    ("n", (_A.ANY.value,), "g e d c b a"),
    ("n", (_A.LIKE.value, "", ""), "g"),
    ("s", compared(_A.IS, "eu"), "a"),
    ("s", compared(_A.IS, "EU*"), "b"),
    ("s", compared(_A.IS, ""), "d"),
    ("s", compared(_A.ABOVE, "eu"), "g e c"),
    ("s", compared(_A.BELOW, "eu"), "d b"),
    ("s", compared(_A.FROM, ""), "g e d c b a"),
    ("s", (_A.LIKE.value, "eu", ""), "c a"),
    ("s", (_A.LIKE.value, "eu_", ""), "c"),
    ("s", (_A.LIKE.value, "", "*"), "b"),
    ("s", (_A.LIKE.value, "gr", "e"), "e"),
    ("b", compared(_A.IS, True), "a"),
    ("b", compared(_A.IS, False), "b"),
    ("w", compared(_A.IS, _DUE), "a"),
    ("w", compared(_A.BELOW, _DUE), "d"),
    ("w", compared(_A.FROM, datetime(1, 1, 1, tzinfo=UTC)), "d a"),
    ("unknown", (_A.ANY.value,), ""),
)


class AttributeFilterSuite(StoreCase):
    """Listings by attributes, titles and who started a run."""

    async def test_a_value_is_compared_with_values_of_its_type(self, scene: Scene) -> None:
        await _fill(scene)
        runs = await scene.store.views.list_runs(RunFilter(), limit=99)
        found, rest, upwards, alike = {}, {}, {}, {}

        for name, value, _ in _COMPARED:
            one, other = having(name, value), having(name, value, negated=True)
            found[name, value] = await _list(scene, one)
            rest[name, value] = await _list(scene, other)
            upwards[name, value] = await _list(scene, one, order=Order(descending=False))
            alike[name, value] = " ".join(run.run_id for run in runs if meets(run, (), one))

        expected = {(name, value): listed for name, value, listed in _COMPARED}
        assert found == alike == expected
        assert rest == {
            case: " ".join(sorted(set("abcdefg") - set(one), reverse=True)) for case, one in expected.items()
        }
        assert upwards == {case: one[::-1] for case, one in expected.items()}

    async def test_conditions_combine_with_others_and_are_paged(self, scene: Scene) -> None:
        await _fill(scene)
        nine, text = compared(_A.IS, 9), compared(_A.IS, "9")

        assert await _list(scene, having("n", nine, text)) == "g e a"
        assert await _list(scene, having("n", nine), having("b", compared(_A.IS, True))) == "a"
        assert await _list(scene, having("n", nine), Condition(Field.ID, (("a",),), negated=True)) == "e"
        assert await _list(scene, having("n", nine), statuses=(RunStatus.PENDING,)) == "e a"
        assert await _list(scene, having("n", nine), statuses=(RunStatus.COMPLETED,)) == ""
        assert await _list(scene, having("n", nine), workflow="flow") == "e a"
        assert await _list(scene, having("n", nine), workflow="other") == ""
        for where in (having("n", nine), having("n", compared(_A.FROM, 9)), having("n", nine, text)):
            whole, seen = (await _list(scene, where)).split(), list[str]()
            while page := await _list(scene, where, limit=1, before=RunId(seen[-1]) if seen else None):
                seen += page.split()
            assert seen == whole

    async def test_an_order_by_an_attribute_has_the_runs_with_it(self, scene: Scene) -> None:
        await _fill(scene)
        expected = {"n": "b a e c d g", "s": "d b a c e g", "b": "b a", "w": "d a", "unknown": ""}

        for name, wanted in expected.items():
            for is_descending in (False, True):
                order, seen = Order(descending=is_descending, attribute=name), list[str]()
                while page := await _list(scene, order=order, limit=2, before=RunId(seen[-1]) if seen else None):
                    seen += page.split()
                assert " ".join(seen) == (wanted[::-1] if is_descending else wanted)
                assert await _list(scene, order=order, before=RunId("f")) == ""
        order = Order(attribute="n")
        both = (RunStatus.COMPLETED, RunStatus.PENDING)
        assert await _list(scene, order=order, statuses=(RunStatus.COMPLETED,)) == ""
        assert await _list(scene, order=order, statuses=both) == expected["n"][::-1]

    async def test_titles_and_starters_are_searched(self, scene: Scene) -> None:
        await _fill(scene)
        await scene.create("h", started_by="Ann_x", title="Über 100% für Ann")

        assert await _list(scene, Condition(Field.STARTED_BY, (("ann",),))) == "a"
        assert await _list(scene, Condition(Field.STARTED_BY, (("ann",), ("bnn",)))) == "b a"
        assert await _list(scene, Condition(Field.STARTED_BY, (("Ann_", ""),))) == "h"
        assert await _list(scene, Condition(Field.STARTED_BY, (("", ""),), negated=True)) == "f"
        assert await _list(scene, Condition(Field.TITLE, (("", "order", ""),))) == "g e d c b a"
        assert await _list(scene, Condition(Field.TITLE, (("", "100% f", ""),))) == "h"
        assert await _list(scene, Condition(Field.TITLE, (("", "order", ""),), negated=True)) == "h f"
        assert await _list(scene, Condition(Field.WORD, (("", "ber 100%", ""),))) == "h"
