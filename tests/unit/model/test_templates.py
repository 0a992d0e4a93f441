"""Templates: what they give for a payload, and what is not one."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.errors import InvalidInputError, InvalidOptionError
from stepwell.model.templates import check_template, first_names, render, render_text

PAYLOAD: Any = {"order": {"id": 42, "lines": [{"sku": "a"}, {"sku": "b"}], "paid": True}, "odd name": "x", "none": None}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("order.id", 42),
        ("{order.id}", "42"),
        ("order-{order.id}-{order.lines.1.sku}", "order-42-b"),
        ("odd name", "x"),
        ("{{{odd name}}}", "{x}"),
        ("none", None),
        ("order.lines.0", {"sku": "a"}),
        (
            {"id": "order.id", "all": {"paid": "order.paid", "fix": 7, "no": None}},
            {"id": 42, "all": {"paid": True, "fix": 7, "no": None}},
        ),
    ],
)
def test_a_template_reads_a_payload(template: Any, value: Any) -> None:
    assert render(check_template(template, what="input"), PAYLOAD, what="input") == value


LACKING = ["order.nope", "nope", "order.id.deep", "order.lines.2", "order.lines.-1", "order.lines.sku", "a-{nope}"]


@pytest.mark.parametrize("template", [*LACKING, "{order.paid}"])
def test_a_payload_may_lack_what_a_template_reads(template: str) -> None:
    with pytest.raises(InvalidInputError):
        render(check_template(template, what="key"), PAYLOAD, what="key")


@pytest.mark.parametrize("template", ["order.paid", "none", "order.lines", "order"])
def test_a_key_is_a_text_or_a_whole_number(template: str) -> None:
    with pytest.raises(InvalidInputError, match="whole number"):
        render_text(template, PAYLOAD, what="key")


NO_TEXTS = ["", ".", "a.", ".a", "a..b", " a", "{}", "{a", "a}", "}{", "{a}{", "{a.}", "x" * 501]
NO_TEMPLATES = [["a"], object(), {1: "a"}, lambda event: event, len, {"a": {"b": len}}, b"a", {"a": "b."}]


@pytest.mark.parametrize("template", [*NO_TEXTS, *NO_TEMPLATES])
def test_what_is_no_template_is_rejected_with_a_line_to_write(template: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        check_template(template, what="key")
    assert caught.value.fix


def test_a_template_that_is_too_deep_is_rejected() -> None:
    deep: Any = "a"
    for _ in range(9):
        deep = {"a": deep}
    with pytest.raises(InvalidOptionError):
        check_template(deep, what="input")


def test_the_fields_that_a_template_reads_are_known() -> None:
    assert [*first_names({"a": "order.id", "b": {"c": "x-{y.z}-{w}", "d": 1}})] == ["order", "y", "w"]
