"""Medians, ratios and refusals over samples, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers.catalogue import PARTICIPANTS, WORKLOADS, choose, choose_workloads, in_turn
from bench.peers.results import FIGURES, Results, Sample, Spread, spread


def sample(participant: str, workload: str, number: int, **figures: float) -> Sample:
    return Sample(participant, workload, number, figures)


def test_a_figure_is_told_with_its_median_and_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([]) is None


def test_a_ratio_pairs_the_rounds_and_says_how_far_ahead_more_steps_are() -> None:
    results = Results(
        samples=[
            sample("stepwell-sqlite", "W1", 1, steps_per_s=1_000),
            sample("stepwell-sqlite", "W1", 2, steps_per_s=100),
            sample("stepwell-sqlite", "W1", 3, steps_per_s=900),
            sample("dbos-sqlite", "W1", 1, steps_per_s=100),
            sample("dbos-sqlite", "W1", 2, steps_per_s=50),
            sample("dbos-sqlite", "W1", 3, steps_per_s=100),
        ]
    )

    assert results.ratio("W1", ours="stepwell-sqlite", theirs="dbos-sqlite") == 9.0


def test_a_ratio_of_times_is_the_other_way_round() -> None:
    samples = [sample("stepwell-sqlite", "W3", 1, p50_ms=0.5), sample("restate", "W3", 1, p50_ms=10)]

    assert Results(samples=samples).ratio("W3", ours="stepwell-sqlite", theirs="restate") == 20.0


@pytest.mark.parametrize("ours", [[], [0.0], [-1.0]])
def test_there_is_no_ratio_to_nothing(ours: list[float]) -> None:
    samples = [sample("stepwell-sqlite", "W7", 1, memory_kib=value) for value in ours]
    samples.append(sample("restate", "W7", 1, memory_kib=40.0))

    assert Results(samples=samples).ratio("W7", ours="stepwell-sqlite", theirs="restate") is None


def test_rounds_that_only_one_of_them_has_been_through_make_no_ratio() -> None:
    samples = [sample("stepwell-sqlite", "W1", 1, steps_per_s=10), sample("restate", "W1", 2, steps_per_s=1)]

    assert Results(samples=samples).ratio("W1", ours="stepwell-sqlite", theirs="restate") is None


def test_the_next_round_is_that_of_whoever_takes_part() -> None:
    results = Results(samples=[sample("restate", "W1", 1), sample("restate", "W1", 2), sample("absurd", "W1", 1)])

    assert results.next_round("W1", ["absurd"]) == 2
    assert results.next_round("W1", ["absurd", "restate"]) == 3
    assert results.next_round("W2", ["restate"]) == 1


def test_a_refusal_is_told_unless_another_round_has_figures() -> None:
    refused = Sample("edda-sqlite", "W6", 1, refused="it cannot")
    results = Results(absent={"restate": "npm is missing"}, samples=[refused])

    assert results.refusal("edda-sqlite", "W6") == "it cannot"
    assert results.refusal("restate", "W1") == "npm is missing"
    assert results.refusal("absurd", "W1") == ""
    results.samples.append(sample("edda-sqlite", "W6", 2, recover_s=1.0))
    assert results.refusal("edda-sqlite", "W6") == ""


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    results = Results({"cores": "2"}, {"absurd": "0.5"}, {"restate": "why"}, [sample("absurd", "W1", 1, steps_per_s=5)])

    results.save(tmp_path / "new" / "results.json")

    assert Results.load(tmp_path / "new" / "results.json") == results


def test_participants_are_chosen_by_name_or_by_its_beginning() -> None:
    assert [one.name for one in choose("dbos, absurd")] == ["dbos-sqlite", "dbos-postgres", "absurd"]
    assert [one.name for one in choose("stepwell-sqlite")] == ["stepwell-sqlite"]
    assert choose("") == list(PARTICIPANTS)
    with pytest.raises(ValueError, match="nobody is called 'db'"):
        choose("db")


def test_each_round_begins_with_the_next_participant() -> None:
    three = list(PARTICIPANTS[:3])

    assert in_turn(three, 1) == three
    assert in_turn(three, 2) == [three[1], three[2], three[0]]
    assert in_turn(three, 4) == three
    assert in_turn([], 1) == []


def test_workloads_are_chosen_in_their_order() -> None:
    assert choose_workloads("w3,W1") == ["W1", "W3"]
    assert choose_workloads("") == list(WORKLOADS)
    with pytest.raises(ValueError, match="no workload 'W99'"):
        choose_workloads("W99")


def test_every_workload_has_a_figure_that_ratios_are_made_of() -> None:
    assert list(FIGURES) == list(WORKLOADS)


def test_an_order_is_the_whole_workload_but_for_what_a_peer_is_given_less_of() -> None:
    [absurd] = choose("absurd")

    assert absurd.order("W1") == {"workload": "W1", "steps": 1_000}
    assert absurd.order("W2") == {"workload": "W2", "runs": 500, "steps": 10}
