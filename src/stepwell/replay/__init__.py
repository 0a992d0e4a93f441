"""One workflow, one turn: the deterministic kernel. It knows no store and no other run."""
