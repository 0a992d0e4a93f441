"""One program per peer, run in that peer's own environment: nothing here but what drives it, and the standard library.

`python -P -m bench.peers.drivers.NAME ORDER`, where ORDER is JSON: what to measure, how much, and where. A
driver tells how it goes in lines of JSON on its standard output (`talk.py`).
"""
