"""The same operations on several stores: same answers, same state.

One seeded stream of store operations (a file for each noun; `mix.py` draws them) runs through all stores of a world
(`world.py`). After each operation the answers are compared, and everything that the stores show of themselves. The
first store, which is the executable specification, says what is right. `python -m tests.differential` is the campaign,
and pytest runs a few seeds.
"""
