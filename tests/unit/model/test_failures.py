"""Stored failures are text, complete enough to be read and to be raised again."""

from __future__ import annotations

from stepwell.errors import ChildFailed, Failure, HistoryDivergedError, JoinError, StepFailed
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import decode_failure, encode_failure, record_failure


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_exception_keeps_its_type_its_words_and_its_trace() -> None:
    record = record_failure(_raised(KeyError("sku")), path="pay/charge")

    assert (record.type, record.qualified, record.message, record.path) == (
        "KeyError",
        "builtins.KeyError",
        "'sku'",
        "pay/charge",
    )
    assert "_raised" in record.trace
    assert decode_failure(encode_failure(record)) == record


def test_a_planned_failure_keeps_its_reason_verbatim_and_has_no_trace() -> None:
    record = record_failure(Failure("  out of stock: ü  ", {"sku": 1}), data=b'{"sku":1}')

    assert (record.message, record.trace, record.data) == ("  out of stock: ü  ", "", {"sku": 1})


def test_our_own_errors_keep_code_cause_and_fix() -> None:
    record = record_failure(HistoryDivergedError("other path", where="a", why="recorded: b", fix="do c"))

    assert (record.code, record.path, record.why, record.fix) == ("SW201", "a", "recorded: b", "do c")


def test_text_that_a_store_could_not_hold_is_escaped() -> None:
    record = record_failure(ValueError("a\x00b\ud800"))

    assert record.message == "a\\0b\\ud800"


def test_an_exception_that_cannot_be_printed_is_still_recorded() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "cannot be printed" in record_failure(Mute()).message


def test_a_failure_concerns_its_path_what_is_around_it_and_the_paths_of_its_causes() -> None:
    step = StepFailed("all/left/charge", FailureRecord("OSError", "down"), 1)
    record = record_failure(JoinError("all", {"left": step}))

    assert [path for path in ("all", "all/left", "all/left/charge", "all/right", "al") if record.concerns(path)] == [
        "all",
        "all/left",
        "all/left/charge",
    ]


def test_a_childs_own_paths_do_not_concern_the_parent() -> None:
    inner = FailureRecord("OSError", "down", path="charge")
    record = record_failure(ChildFailed("pay", "run-1", "failed", inner))

    assert record.concerns("pay")
    assert not record.concerns("charge")


def test_the_record_of_an_exception_group_names_its_first_cause() -> None:
    step = StepFailed("charge", FailureRecord("OSError", "down"), 1)

    plain = record_failure(ExceptionGroup("two failed", [ExceptionGroup("inner", [KeyError("a")]), OSError("b")]))
    own = record_failure(ExceptionGroup("one failed", [step]))

    assert plain.message == "two failed (2 sub-exceptions); the first: KeyError: 'a'"
    assert own.message == "one failed (1 sub-exception); the first: step charge failed after 1 attempt: OSError: down"
