"""The filter language: what each term means, and what is said of one that means nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stepwell.clock import Instant
from stepwell.engine.filters import parse_filter
from stepwell.engine.terms import LENGTH_MAX, TERMS_MAX
from stepwell.errors import FilterError
from stepwell.model.states import ACTIVE, TERMINAL, RunStatus
from stepwell.stores.base.filters import Condition, Field, Order, SortKey
from stepwell.stores.base.views import RunFilter

NOW = Instant(1_800_000_000_000_000)
HOUR = 3_600_000_000
S = RunStatus


def parse(text: str) -> RunFilter:
    return parse_filter(text, NOW)


def the_condition(text: str) -> tuple[Any, ...]:
    (condition,) = parse(text).conditions
    return condition.field, *condition.values


def test_nothing_means_everything() -> None:
    assert parse("") == parse(" \t\n ") == RunFilter()


def test_the_line_of_the_manual() -> None:
    found = parse("status:failed since:24h workflow:order* error:timeout -tag:test sort:-started")

    assert found == RunFilter(
        statuses=(S.FAILED,),
        conditions=(
            Condition(Field.CREATED, ((">=", str(NOW - 24 * HOUR)),)),
            Condition(Field.WORKFLOW, (("order", ""),)),
            Condition(Field.ERROR, (("", "timeout", ""),)),
            Condition(Field.TAG, (("test=", ""),), negated=True),
        ),
        order=Order(SortKey.STARTED, descending=True),
    )


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("status:failed,waiting", {S.FAILED, S.WAITING}),
        ("STATUS:Failed", None),
        ("status:FAILED", {S.FAILED}),
        ("-status:completed", set(S) - {S.COMPLETED}),
        ("status:active", ACTIVE),
        ("status:ended -status:completed", TERMINAL - {S.COMPLETED}),
        ("status:rollback_incomplete", {S.COMPENSATION_FAILED}),
        ("status:active,ended", set()),
        ("error:x", set(S) - {S.COMPLETED, S.CONTINUED}),
        ("-error:x", set()),
        ("waiting:signal", ACTIVE),
    ],
)
def test_statuses_are_united_within_a_term_and_met_between_terms(text: str, statuses: set[RunStatus] | None) -> None:
    if statuses is None:
        with pytest.raises(FilterError, match="no field 'STATUS'"):
            parse(text)
    else:
        assert set(parse(text).statuses) == statuses


def test_statuses_that_exclude_each_other_match_nothing() -> None:
    assert parse("status:failed -status:failed").conditions == (Condition(Field.ID, ()),)


def _times(*tests: tuple[str, int]) -> list[tuple[str, str]]:
    return [(sign, f"w{NOW + away + 10**17}") for sign, away in tests]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("workflow:a*b*", (Field.WORKFLOW, ("a", "b", ""))),
        ('workflow:"a*"*', (Field.WORKFLOW, ("a*", ""))),
        ("workflow:a,b", (Field.WORKFLOW, ("a",), ("b",))),
        ('tag:"a,b",c', (Field.TAG, ("a,b=", ""), ("c=", ""))),
        ("key:A*", (Field.KEY, ("a", ""))),
        ("id:018F*", (Field.ID, ("018f", ""))),
        ("at:payment/~3/charge", (Field.AT, ("payment/~3/charge",))),
        ("tag:vip", (Field.TAG, ("vip=", ""))),
        ("tag:v*", (Field.TAG, ("v", "=", ""))),
        ("tag:region=eu*", (Field.TAG, ("region=eu", ""))),
        ("attr.region:eu,us", (Field.ATTRIBUTE, ("=", "teu"), ("=", "tus"))),
        ("attr.region:eu*", (Field.ATTRIBUTE, ("~", "eu", ""))),
        ("attr.a.b:*", (Field.ATTRIBUTE, ("*",))),
        ("attr.n:100,100.0", (Field.ATTRIBUTE, ("=", "n210021"), ("=", "t100"), ("=", "t100.0"))),
        ('attr.n:"100"', (Field.ATTRIBUTE, ("=", "t100"))),
        ("attr.n:>-0.5,<=1e3", (Field.ATTRIBUTE, (">", "n090004~"), ("<=", "n210031"))),
        ('attr.name:>""', (Field.ATTRIBUTE, (">", "t"))),
        ('attr.name:>="m"', (Field.ATTRIBUTE, (">=", "tm"))),
        ("attr.vip:true", (Field.ATTRIBUTE, ("=", "b1"), ("=", "ttrue"))),
        ("attr.due:<2027-01-15", (Field.ATTRIBUTE, ("<", f"w{NOW - 8 * HOUR + 10**17}"))),
        ("attr.due:>=2027-01-15T09:00+01:00", (Field.ATTRIBUTE, (">=", f"w{NOW + 10**17}"))),
        ("attr.due:<now,>now-1h,>now+1h", (Field.ATTRIBUTE, *_times(("<", 0), (">", -HOUR), (">", HOUR)))),
        ("attr.due:now", (Field.ATTRIBUTE, ("=", "tnow"))),
        ("title:Two*words", (Field.TITLE, ("", "two", "words", ""))),
        ("started_by:ann,B*", (Field.STARTED_BY, ("ann",), ("B", ""))),
        ("waiting:signal", (Field.WAITING, ("signal:", ""))),
        ("waiting:signal:Approve*", (Field.WAITING, ("signal:Approve", ""))),
        ("waiting:signal:Approve:Purchase", (Field.WAITING, ("signal:Approve:Purchase",))),
        ('error:"Stock API 503"', (Field.ERROR, ("", "stock api 503", ""))),
        ('error:"say \\"a\\\\b\\""', (Field.ERROR, ("", 'say "a\\b"', ""))),
        ("version:7", (Field.VERSION, ("=", "7"))),
        ("version:<7,>9", (Field.VERSION, ("<", "7"), (">", "9"))),
        ("took:>=30s", (Field.TOOK, (">=", "30000000"))),
        ("until:1h", (Field.CREATED, ("<=", str(NOW - HOUR)))),
        ("since:2027-01-15T08:00", (Field.CREATED, (">=", str(NOW)))),
        ("since:2027-01-15T09:00+01:00", (Field.CREATED, (">=", str(NOW)))),
        ("since:999999999999999w", (Field.CREATED, (">=", "0"))),
        ("Word", (Field.WORD, ("", "word", ""))),
        ('"two words"', (Field.WORD, ("", "two words", ""))),
        ('"a:b"', (Field.WORD, ("", "a:b", ""))),
        ("input.customer.id:42", (Field.INPUT, ('"42"',), ("42",))),
        ('input.customer.id:"42"', (Field.INPUT, ('"42"',))),
        ("input.paid:true", (Field.INPUT, ('"true"',), ("true",))),
        ("input.name:änn", (Field.INPUT, ('"änn"',))),
    ],
)
def test_a_term_is_a_condition(text: str, condition: tuple[Any, ...]) -> None:
    assert the_condition(text) == condition
    if text.partition(":")[0] not in ("since", "until"):
        assert parse(f"-{text}").conditions[0].negated


def test_what_has_an_index_is_asked_for_by_itself() -> None:
    found = parse('workflow:order key:" A  17" parent:R1 workflow:other')

    assert (found.workflow, found.key, found.parent) == ("order", "a  17", "r1")
    assert found.conditions == (Condition(Field.WORKFLOW, (("other",),)),)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("sort:-took", Order(SortKey.TOOK)),
        ("sort:ended", Order(SortKey.ENDED, descending=False)),
        ("sort:created", Order(SortKey.CREATED, descending=False)),
        ("", Order(SortKey.ID)),
        ("sort:-attr.order.amount", Order(attribute="order.amount")),
        ("sort:attr.n", Order(descending=False, attribute="n")),
    ],
)
def test_an_order_is_upwards_unless_it_has_a_minus(text: str, order: Order) -> None:
    assert parse(text).order == order


@pytest.mark.parametrize(
    ("text", "position", "title", "fix"),
    [
        ("a stauts:failed", 2, "no field 'stauts'", "did you mean status?"),
        ("status:failed,faled", 14, "unknown status 'faled'", "did you mean failed?"),
        ("status:retrying", 7, "unknown status", "waiting:retry"),
        ("attr.9:1", 0, "no attribute is named '9'", "write attr.NAME:VALUE, as in attr.region:eu"),
        ("sort:attr.9", 5, "no attribute is named '9'", "write attr.NAME:VALUE"),
        ("sort:attr", 5, "runs cannot be sorted by 'attr'", "did you mean attr.NAME?"),
        ("attr.n:>true", 7, "true has no place in an order", "write attr.n:true"),
        ("attr.n:1,>", 9, "attr.n:> has no value", "write a value, as in >100"),
        ("attr.n:>a*", 7, "a text with * has no place in an order", "write attr.n:a*, without >"),
        ("attr.n:>now+never", 7, "'>now+never' is not a time", "write now, now-24h or now+7d"),
        ("attr.n:1e999", 7, "the number of attribute 'n' is too long, too large or too small", "fewer digits"),
        ("key:", 0, "no value", '""'),
        ("status:failed,", 0, "an empty value", '""'),
        ('error:"open', 6, "not closed", '"'),
        ("-", 0, "search term is missing", "word"),
        ("-sort:took", 0, "cannot be excluded", "sort:-took"),
        ("sort:size", 5, "sorted by 'size'", "took"),
        ("sort:took sort:id", 10, "only one order", "one"),
        ("since:yesterday", 6, "not a time", "24h"),
        ("-since:1h", 0, "one time", "opposite"),
        ("since:1h,2h", 0, "one time", "each"),
        ("took:30s", 5, "needs < or >", "took:>30s"),
        ("took:>soon", 5, "not a duration", "took:>30s"),
        ("version:x", 8, "not a version", "version:7"),
        ("version:99999999999999999999", 8, "not a version", "version:7"),
        ("waiting:singal", 8, "no run waits for", "did you mean signal"),
        ("waiting:*", 8, "no run waits for", "signal"),
        ("input:42", 0, "needs a name", "input.NAME"),
        ("input.a:4*", 8, "whole", "quotes"),
        ("tag.vip:1", 0, "no parts", "tag:VALUE"),
        ("key:''" + "k" * 300, 4, "key", ""),
        ("parent:a,b", 0, "one run", "parent:ID"),
        ("1:2", 0, "not a field", "quotes"),
        ("a\x00b", 1, "control characters", ""),
        ("x" * (LENGTH_MAX + 1), LENGTH_MAX, "too long", "at most"),
        ("a " * (TERMS_MAX + 1), 2 * TERMS_MAX, "too many terms", "at most"),
    ],
)
def test_a_term_that_means_nothing_is_refused_with_its_place_and_a_way_out(
    text: str, position: int, title: str, fix: str
) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text)

    error = refused.value
    assert (error.code, error.position) == ("SW407", position)
    assert title in error.title
    assert fix in error.fix
    assert error.where.startswith(f"character {position + 1} of the filter")


def _refused_at(text: str) -> int | None:
    try:
        parse(text)
    except FilterError as error:
        return error.position
    return None


def test_any_text_is_a_filter_or_is_refused() -> None:
    chance, read = random.Random(7), 0
    parts = [
        *"\"\\*:,.-<>= \t\n%_'",
        "status",
        "workflow",
        "since",
        "took",
        "input.a",
        "sort",
        "failed",
        "1h",
        "ä",
        "\x00",
    ]
    for _ in range(3_000):
        text = "".join(chance.choice(parts) for _ in range(chance.randint(1, 12)))
        position = _refused_at(text)
        assert position is None or 0 <= position <= len(text)
        read += position is None
    assert read > 100
