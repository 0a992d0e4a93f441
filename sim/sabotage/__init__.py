"""Sabotage: each switch breaks the engine in one way, and the checker must notice.

A switch patches one function (or one statement) of the loaded code for as long as its context lasts; the engine itself
carries no switches. Those that break a store break SQLite, unless their name begins with `postgres`.
"""
