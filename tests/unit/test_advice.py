"""Advice: one fact for every audience, and nothing stored in it can run or control a terminal."""

from __future__ import annotations

import inspect
import shlex
import subprocess

import click
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from stepwell.advice import Advice, Verb, advice_of, in_commands, in_python, in_requests, quote_for_shell
from stepwell.cli.main import stepwell
from stepwell.engine.alerts import Alerts
from stepwell.engine.bulks import Bulks
from stepwell.engine.dead_letters import DeadLetters
from stepwell.engine.holds import Holds
from stepwell.engine.outbox import Outbox
from stepwell.engine.repairs import Repairs
from stepwell.engine.runs import Runs
from stepwell.engine.schedules import Schedules
from stepwell.engine.signals import Signals
from stepwell.engine.triggers import Triggers
from stepwell.errors import RunPaused, StepwellError
from stepwell.errors.records import FailureRecord
from stepwell.http.routes import OPERATIONS
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.wiring import Engine

NASTY = "a'b; rm -rf \x1b[31m\u202e$(x)`y`\n--all"


def advice(verb: Verb, text: str = "order-42") -> Advice:
    return Advice(verb, text, {"name": text, "path": text})


@pytest.mark.parametrize("verb", Verb)
def test_every_verb_has_words_for_every_audience(verb: Verb) -> None:
    one = advice(verb)

    assert one.as_python()
    assert one.as_command()
    assert one.as_request()
    assert one.as_http()["verb"] == verb.value


@pytest.mark.parametrize("verb", sorted(set(Verb) - {Verb.DEPLOY}))
def test_every_command_is_one_that_the_command_line_takes(verb: Verb) -> None:
    program, *words = shlex.split(advice(verb).command)
    context = click.Context(stepwell)
    group: click.Command = stepwell
    while isinstance(group, click.Group):
        _, found, words = group.resolve_command(context, words)
        assert found is not None
        context, group = click.Context(found, parent=context), found

    assert program == "stepwell"
    group.make_context(group.name, list(words), parent=context.parent, resilient_parsing=True)
    assert not any(word.startswith("--") and word.partition("=")[0] not in _options(group) for word in words)


def test_an_event_to_publish_has_the_fields_that_the_wait_asks_for() -> None:
    one = Advice(Verb.PUBLISH, "Shipped", {"order": '"order 42"', "parcels": "2", "note": "not JSON"})

    assert one.as_command() == "stepwell publish Shipped 'order=order 42' parcels:=2 'note=not JSON'"
    assert one.as_python() == "engine.publish('Shipped', {'order': 'order 42', 'parcels': 2, 'note': 'not JSON'})"


def _options(command: click.Command) -> set[str]:
    return {letters for param in command.params for letters in param.opts}


@pytest.mark.parametrize("verb", sorted(set(Verb) - {Verb.DEPLOY, Verb.WORKER}))
def test_every_request_is_one_that_the_api_has(verb: Verb) -> None:
    request = advice(verb).as_http()
    scope = {"type": "http", "method": request["method"], "path": request["path"]}

    routes = [Route(each.path, never, methods=[each.method]) for each in OPERATIONS]
    assert any(route.matches(scope)[0] is Match.FULL for route in routes)


async def never(request: Request) -> Response:
    raise AssertionError("routes are only matched")


@pytest.mark.parametrize("verb", sorted(set(Verb) - {Verb.DEPLOY, Verb.WORKER}))
def test_every_call_is_one_that_the_engine_has(verb: Verb) -> None:
    name = advice(verb).as_python().partition("(")[0].split(".")
    assert name.pop(0) == "engine"
    nouns = {
        "alerts": Alerts,
        "bulks": Bulks,
        "dead_letters": DeadLetters,
        "holds": Holds,
        "outbox": Outbox,
        "repairs": Repairs,
        "runs": Runs,
        "schedules": Schedules,
        "signals": Signals,
        "triggers": Triggers,
    }
    owner = nouns[name.pop(0)] if len(name) == 2 else Engine

    assert callable(inspect.getattr_static(owner, name[0]))


def test_an_act_that_the_api_cannot_do_has_no_request() -> None:
    assert Advice(Verb.WORKER).as_http() | {"method": "", "path": ""} == Advice(Verb.WORKER).as_http()
    assert Advice(Verb.WORKER).as_request() == "stepwell worker MODULE"


def test_a_note_stands_before_the_act() -> None:
    one = Advice(Verb.RESUME, "a-1", note="fix the cause, then")

    assert one.as_python() == "fix the cause, then: engine.holds.resume('a-1')"
    assert one.as_command() == "fix the cause, then: stepwell resume a-1"
    assert one.as_request() == "fix the cause, then: POST /api/runs/a-1/resume"
    assert one.command == "stepwell resume a-1"


def test_what_is_not_known_is_shown_in_capitals() -> None:
    assert Advice(Verb.SIGNAL, "a").command == "stepwell signal a NAME"
    assert Advice(Verb.SIGNAL, "a").as_python() == "engine.signal('a', NAME)"


@pytest.mark.parametrize("text", [NASTY, "", "a b", "it's", "ü", "\x00", "\\n", "{target}", "~", "a=b"])
def test_a_shell_reads_a_quoted_text_as_it_is(text: str) -> None:
    quoted = quote_for_shell(text)

    assert quoted.isprintable()
    if "\x00" not in text:  # which no shell can pass on
        said = subprocess.run(
            ["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
        )
        assert said.stdout.decode() == text


@pytest.mark.parametrize("verb", Verb)
def test_stored_text_can_neither_run_nor_control_a_terminal(verb: Verb) -> None:
    one = advice(verb, NASTY)

    assert one.as_command().isprintable()
    assert one.as_python().isprintable()
    assert one.as_request().isprintable()
    assert NASTY not in one.as_command()


def test_a_target_that_begins_with_a_dash_is_not_an_option() -> None:
    assert Advice(Verb.RESUME, "--all").command == "stepwell resume -- --all"
    assert Advice(Verb.SIGNAL, "a", {"name": "-x"}).command == "stepwell signal -- a -x"


def test_braces_in_a_stored_text_are_not_filled_in() -> None:
    assert Advice(Verb.SIGNAL, "{name}", {"name": "{target}"}).as_python() == "engine.signal('{name}', '{target}')"


def test_an_error_tells_its_fix_to_each_audience() -> None:
    error = StepwellError("it stopped", fix=(Advice(Verb.DEPLOY, "a"), Advice(Verb.RESUME, "a", note="or")))

    assert error.fix == "deploy code that fits this run; or: engine.holds.resume('a')"
    assert str(error).endswith(f"  fix     {error.fix}")
    assert error.fix_in_commands == "deploy code that fits this run; or: stepwell resume a"
    assert error.fix_in_requests == "deploy code that fits this run; or: POST /api/runs/a/resume"


def test_a_fix_in_words_is_the_same_for_every_audience() -> None:
    error = StepwellError("no", fix="write 30s")

    assert {error.fix, error.fix_in_commands, error.fix_in_requests} == {"write 30s"}
    assert error.advice == ()
    assert advice_of("write 30s") == ()
    assert (in_python(()), in_commands(()), in_requests(())) == ("", "", "")


def test_advice_is_kept_with_a_failure_and_raised_again_from_it() -> None:
    error = StepwellError("no", fix=Advice(Verb.SKIP, "a", {"path": "x/y"}, note="if it took effect"))

    stored = decode_failure(encode_failure(record_failure(error)))

    assert stored.advice == error.advice
    assert RunPaused("a", stored).fix_in_commands == "if it took effect: stepwell skip --result=JSON a x/y"


def test_a_failure_from_before_there_was_advice_can_be_read() -> None:
    stored = decode_failure(
        b'{"type":"HistoryDivergedError","message":"m","code":"SW201","why":"recorded: a \xc2\xb7 now: b","fix":"f"}'
    )

    assert stored == FailureRecord("HistoryDivergedError", "m", code="SW201", why="recorded: a · now: b", fix="f")
    assert RunPaused("a", stored).fix == "f"


def test_a_verb_of_a_newer_release_is_read_as_a_look_at_the_run() -> None:
    stored = b'{"type":"E","message":"","advice":[{"verb":"dance","target":"a","options":{},"note":""}]}'

    assert decode_failure(stored).advice == (Advice(Verb.SHOW, "a"),)
