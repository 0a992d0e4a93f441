"""The same operations on several stores: same answers, same state.

One seeded stream of store operations (a file for each noun; `mix.py` draws them) runs through all stores of a world
(`world.py`): SQLite in memory, SQLite in a file, and PostgreSQL, whose transitions are written in another language.
After each operation the answers are compared, and everything that the stores show. All are compared with the first
one; where two differ, one of them is wrong. `python -m tests.differential` is the campaign, and pytest runs a few
seeds.
"""
