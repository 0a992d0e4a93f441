"""The page about testing shows an application and its tests, and they pass."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("args", [("-p", "no:asyncio"), ("-o", "asyncio_mode=auto")], ids=["alone", "pytest-asyncio"])
def test_the_examples_of_the_page_about_testing_pass(pytester: pytest.Pytester, args: tuple[str, ...]):
    text = PAGE.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    for name, code in blocks:
        (pytester.path / name).write_text(code, encoding="utf-8")
    finds = any(entry.value == "stepwell.testing.plugin" for entry in entry_points(group="pytest11"))
    plugin = () if finds else ("-p", "stepwell.testing.plugin")
    quiet = () if "no:asyncio" in args else ("-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_subprocess(*plugin, *args, *quiet, "-W", "error", "-p", "no:cacheprovider")

    tests = sum(len(re.findall(r"^ *(?:async )?def test_", code, re.MULTILINE)) for _, code in blocks)
    assert len(blocks) == text.count("```python")
    result.assert_outcomes(passed=tests + 1)  # one of them runs on two stores


def test_the_page_quotes_a_finding_as_it_is(pytester: pytest.Pytester):
    text = PAGE.read_text(encoding="utf-8")
    quoted = re.search(r"```\n(\d+ points, .*?)```", text, re.DOTALL)
    assert quoted is not None
    blocks = dict(BLOCK.findall(text))
    blind = blocks["app.py"].replace("gateway.charge(ctx.idempotency_key, order.amount)", '"42 EUR"')
    assert blind != blocks["app.py"]
    (pytester.path / "app.py").write_text(blind, encoding="utf-8")
    pytester.makepyfile(
        show="""
        from app import Order, fulfil
        from stepwell.testing import kit, send

        with kit() as t:
            given = {"script": [send("approve")], "at_most_once": "charge"}
            print(t.crash_everywhere(fulfil, Order("ann", 42), check=False, **given))
        """
    )
    result = pytester.runpython(Path("show.py"))

    assert result.stdout.str().strip() == quoted[1].strip()
