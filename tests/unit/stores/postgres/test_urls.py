"""What the URL of a database may say, and that nothing of a password is ever said back."""

from __future__ import annotations

import traceback

import pytest
from psycopg.conninfo import conninfo_to_dict

from stepwell.errors import InvalidOptionError
from stepwell.stores.postgres.urls import parse_address

SECRET = "5ecret"


def test_a_url_says_where_the_database_is_and_how_it_is_used() -> None:
    address = parse_address(
        "postgresql://ann:5ecret@db.example:5433/shop?schema=flows&isolation=serializable&connections=7&sslmode=require"
    )

    assert (address.where, address.schema) == ("postgresql://db.example:5433/shop", "flows")
    assert (address.isolation, address.connections_max) == ("serializable", 7)
    given = conninfo_to_dict(address.conninfo)
    assert given["user"] == "ann"
    assert given["password"] == "5ecret"
    assert given["sslmode"] == "require"
    assert address.listen_conninfo == address.conninfo


def test_without_options_there_are_defaults() -> None:
    address = parse_address("postgres://localhost/shop")

    assert (address.schema, address.isolation, address.connections_max) == ("stepwell", None, 4)
    assert conninfo_to_dict(address.conninfo)["application_name"] == "stepwell"


def test_of_several_hosts_the_one_that_takes_writes_is_wanted() -> None:
    address = parse_address("postgresql://one:5433,two,three:5435/shop")

    assert address.where == "postgresql://one:5433,two:5432,three:5435/shop"
    assert conninfo_to_dict(address.conninfo)["target_session_attrs"] == "read-write"
    said = parse_address("postgresql://one,two/shop?target_session_attrs=any")
    assert conninfo_to_dict(said.conninfo)["target_session_attrs"] == "any"


def test_a_url_may_lead_past_a_pooler_to_listen() -> None:
    address = parse_address(
        "postgresql://ann@pooler:6432/shop?connections=2&listen=postgresql%3A//ann%3A5ecret%40db%3A5432/shop%3Fsslmode%3Drequire"
    )

    assert conninfo_to_dict(address.conninfo)["host"] == "pooler"
    listen = conninfo_to_dict(address.listen_conninfo)
    assert (listen["host"], listen["password"], listen["sslmode"]) == ("db", "5ecret", "require")


def test_what_is_for_libpq_reaches_it_as_it_was_written() -> None:
    address = parse_address("postgresql:///shop?host=/run/postgresql&options=-c%20geqo%3Doff&password=a+b%26c")

    given = conninfo_to_dict(address.conninfo)
    assert given["host"] == "/run/postgresql"
    assert given["options"] == "-c geqo=off"
    assert given["password"] == "a+b&c"


@pytest.mark.parametrize("host", ["[::1]", "[::1]:5433", "db:5432", "db", "", "a:1,[::1]:2"])
def test_every_spelling_of_a_host_is_understood(host: str) -> None:
    assert parse_address(f"postgresql://{host}/shop").where.startswith("postgresql://")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://ann:5ecret@db/shop?shema=x", "unknown option 'shema'"),
        ("postgresql://ann:5ecret@db/shop?schema", "schema has no value"),
        ("postgresql://ann:5ecret@db/shop?schema=a&schema=b", "schema is given twice"),
        ("postgresql://ann:5ecret@db/shop?sslmode=a&sslmode=b", "sslmode is given twice"),
        ("postgresql://ann:5ecret@db/shop?schema=pg_catalog", "schema is 'pg_catalog'"),
        ("postgresql://ann:5ecret@db/shop?schema=", "schema is ''"),
        ("postgresql://ann:5ecret@db/shop?schema=it's", 'schema is "it\'s"'),
        (f"postgresql://ann:5ecret@db/shop?schema={'x' * 51}", "schema is 'xxx"),
        ("postgresql://ann:5ecret@db/shop?schema=a%7Bf%7D", "schema is 'a{f}'"),
        ("postgresql://ann:5ecret@db/shop?isolation=none", "isolation is 'none'"),
        ("postgresql://ann:5ecret@db/shop?connections=0", "connections is '0'"),
        ("postgresql://ann:5ecret@db/shop?connections=many", "connections is 'many'"),
        ("postgresql://ann:5ecret@db/shop?connections=²", "connections is '²'"),
        ("postgresql://ann:5ecret@db/shop?listen=db", "cannot be read"),
        ("postgresql://ann@db/shop?listen=postgresql://ann:5ecret@db:port/shop", "cannot be read"),
        ("postgresql://ann:5ecret@[::1/shop", "cannot be read"),
        ("postgresql://ann:5ecret@[::1]x/shop", "cannot be read"),
        ("postgresql://ann:5ecret@[nowhere]/shop", "cannot be read"),
        ("postgresql://ann:5ecret@db:port/shop", "cannot be read"),
        ("postgresql://ann:5ecret%zz@db/shop", "cannot be read"),
        ("postgresql://ann:5ecret%00@db/shop", "cannot be read"),
        ("postgresql://ann:5ecret@db\ud800/shop", "cannot be read"),
        ("postgresql://ann:5ecret@db/shop?sslmode=a=b", "cannot be read"),
        ("postgresql:ann:5ecret@db/shop", "cannot be read"),
        # Passwords that were not percent-encoded: each of them would be taken for something else.
        ("postgresql://ann:x@5ecret@db/shop", "cannot be read"),
        ("postgresql://ann:x/5ecret@db/shop", "cannot be read"),
        ("postgresql://ann:12/5ecret@db/shop", "cannot be read"),
        ("postgresql://ann:x?5ecret@db/shop", "cannot be read"),
        ("postgresql://ann:12?5ecret@db/shop", "cannot be read"),
        ("postgresql://ann:12?5ecret=@db/shop", "cannot be read"),
        ("postgresql://ann:x#5ecret@db/shop", "cannot be read"),
        ("postgresql://ann:5ecret:x@db/shop?x", "cannot be read"),
        ("postgresql://ann:[5ecret@db/shop", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_explained_without_its_password(url: str, words: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        parse_address(url)

    error = refused.value
    assert words in error.title
    assert error.code == "SW103"
    assert error.where
    assert error.fix
    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_misspelt_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidOptionError) as refused:
        parse_address("postgresql://db/shop?isolaton=serializable")

    assert "did you mean isolation" in refused.value.fix


def test_an_address_shows_no_password() -> None:
    address = parse_address(
        "postgresql://ann:5ecret@db/shop?sslpassword=5ecret&listen=postgresql%3A//ann%3A5ecret%40db/shop"
    )

    assert SECRET not in repr(address)
    assert SECRET not in f"{address} {address!s} {address.where}"
