"""Triggers that make a database refuse what it would have done, with the very states that a server has for it."""

from __future__ import annotations

from typing import LiteralString

import psycopg
from psycopg import sql

# Every transaction that writes draws one lot. Four in eight are undone: as a serialization failure or as a deadlock, at
# the first row or at the very end, when everything but the commit is done.
_LOTS = """
create sequence sabotage.lots;
create function sabotage.draw(p_when text) returns void language plpgsql as $$
declare
    v_lot bigint := nullif(current_setting('sabotage.lot', true), '')::bigint;
begin
    if v_lot is null then
        v_lot := nextval('sabotage.lots') % 8;
        perform set_config('sabotage.lot', v_lot::text, true);
    end if;
    if v_lot = 1 and p_when = 'early' or v_lot = 3 and p_when = 'late' then
        raise exception using errcode = '40001', message = 'sabotage: could not serialize access';
    end if;
    if v_lot = 5 and p_when = 'early' or v_lot = 7 and p_when = 'late' then
        raise exception using errcode = '40P01', message = 'sabotage: deadlock detected';
    end if;
end $$;
"""
_FULL = """
create function sabotage.draw(p_when text) returns void language plpgsql as $$
begin
    raise exception using errcode = '53100', message = 'sabotage: could not extend file: No space left on device';
end $$;
"""
_TRIGGERS = """
create function sabotage.strike() returns trigger language plpgsql as $$
begin
    perform sabotage.draw(tg_argv[0]);
    return null;
end $$;
do $$
declare
    v_table regclass;
begin
    for v_table in
        select c.oid from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = 'stepwell' and c.relkind = 'r'
    loop
        execute format(
            'create trigger sabotage_early after insert or update or delete on %s '
            'for each statement execute function sabotage.strike(''early'')', v_table
        );
        execute format(
            'create constraint trigger sabotage_late after insert or update or delete on %s '
            'deferrable initially deferred for each row execute function sabotage.strike(''late'')', v_table
        );
    end loop;
end $$;
"""


def force_conflicts(url: str) -> None:
    """From now on half of all transactions that write are undone at first; asked again, they may be luckier.

    Forcing them again changes nothing.
    """
    _install(url, _LOTS)


def refuse_space(url: str) -> None:
    """From now on nothing can be written: the server says that its disk is full."""
    _install(url, _FULL)


def relent(url: str) -> None:
    """Everything works again."""
    with psycopg.connect(url) as connection:
        connection.execute("drop schema sabotage cascade")


def _install(url: str, how: LiteralString) -> None:
    with psycopg.connect(url) as connection:
        if connection.execute("select to_regnamespace('sabotage')").fetchone() != (None,):
            return
        connection.execute("create schema sabotage")
        connection.execute(sql.SQL(how + _TRIGGERS))
