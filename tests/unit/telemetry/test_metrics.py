"""The text that Prometheus reads."""

from __future__ import annotations

import pytest

from stepwell.telemetry.metrics import Counter, Gauge, Histogram, render


def test_each_metric_has_its_words_its_kind_and_its_samples() -> None:
    ends = Counter("ends_total", "Ends.", ("workflow", "status"))
    ends.add("shop", "failed")
    ends.add("shop", "completed", count=2)
    ends.add("shop", "failed")

    assert render([ends, Gauge("depth", "Depth.", {(): 3})]).splitlines() == [
        "# HELP ends_total Ends.",
        "# TYPE ends_total counter",
        'ends_total{workflow="shop",status="completed"} 2',
        'ends_total{workflow="shop",status="failed"} 2',
        "# HELP depth Depth.",
        "# TYPE depth gauge",
        "depth 3",
    ]


def test_buckets_of_a_histogram_add_up_and_a_bound_belongs_to_its_bucket() -> None:
    took = Histogram("took", "Took.", (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        took.add(value)

    assert [*took.samples()] == [
        'took_bucket{le="0.1"} 2',
        'took_bucket{le="1.0"} 3',
        'took_bucket{le="+Inf"} 4',
        "took_sum 7.65",
        "took_count 4",
    ]


@pytest.mark.parametrize(("name", "spelled"), [('a"b', r"a\"b"), ("a\\b", r"a\\b"), ("a\nb", r"a\nb")])
def test_no_label_can_break_out_of_its_line(name: str, spelled: str) -> None:
    counter = Counter("x", "X.", ("workflow",))
    counter.add(name)
    assert [*counter.samples()] == [f'x{{workflow="{spelled}"}} 1']
