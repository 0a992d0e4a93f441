"""Deterministic simulation: many processes, one virtual clock, faults at every store edge, all from a seed.

    make sim SEEDS=2000 FIRST_SEED=1

A *seed* decides everything: the programs, who calls what and when, the order of events, and every fault. `loop` is the
virtual time, `faults` breaks the store, `programs` and `interpreter` are the workflows, `checker` holds the invariants
of the specification's chapter 6, `model` says what a program may come to, `sweep` puts a fault at every store call, and
`sabotage` breaks the engine on purpose to prove that the checker would notice.
"""
