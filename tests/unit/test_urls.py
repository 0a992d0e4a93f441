"""The parts of a URL."""

from __future__ import annotations

import pytest

from stepwell.urls import Parts, split_url


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("sqlite:///shop.db", Parts("sqlite", "", "/shop.db", "", None)),
        ("PostgreSQL://db", Parts("postgresql", "db", "", "", None)),
        ("postgresql://ann:x@db:1/shop?a=b&c#d?e", Parts("postgresql", "ann:x@db:1", "/shop", "a=b&c", "d?e")),
        ("postgresql://a:1,[::1]:2/shop", Parts("postgresql", "a:1,[::1]:2", "/shop", "", None)),
        ("postgresql://db?x=://y#", Parts("postgresql", "db", "", "x=://y", "")),
        (" postgresql://db/shop\n", Parts("postgresql", "db", "/shop", "", None)),
        ("memory:", None),
        ("shop.db", None),
        ("/a://b", None),
    ],
)
def test_a_url_is_taken_apart_as_it_was_written(url: str, parts: Parts | None) -> None:
    assert split_url(url) == parts
