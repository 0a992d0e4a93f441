"""The migrations together give the schema in schema.sql."""

from __future__ import annotations

from typing import Any

import psycopg

from stepwell.stores.postgres.texts import FOLDER, MIGRATIONS, render

_SHAPE = """
select 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text, a.attidentity::text,
    coalesce(pg_get_expr(d.adbin, d.adrelid), '')
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef as d on d.adrelid = c.oid and d.adnum = a.attnum
where n.nspname = %(schema)s and c.relkind = 'r'
union all
select 'index', i.tablename, i.indexname, i.indexdef, '', '', '' from pg_indexes as i where i.schemaname = %(schema)s
union all
select 'constraint', c.conrelid::regclass::text, c.conname, pg_get_constraintdef(c.oid), '', '', ''
from pg_constraint as c join pg_namespace as n on n.oid = c.connamespace
where n.nspname = %(schema)s and c.contype <> 'n'
union all
select 'options', c.relname, array_to_string(c.reloptions, ','), c.relkind::text, '', '', ''
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %(schema)s
order by 1, 2, 3, 4
"""


def _shape(url: str, texts: list[str]) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema stepwell")
        for text in texts:
            connection.execute(render(text, "stepwell").encode())
        found = connection.execute(_SHAPE, {"schema": "stepwell"}).fetchall()
        connection.execute("drop schema stepwell cascade")
        return found


def test_the_migrations_make_the_schema(postgres_url: str) -> None:
    made = _shape(postgres_url, [migration.text for migration in MIGRATIONS])
    read = _shape(postgres_url, [(FOLDER / "schema.sql").read_text(encoding="utf-8")])

    assert made == read
    assert len(made) > 100
