"""The virtual world that the test kit, the simulation and the tests of stepwell share.

It has one event loop on which time passes only when everything waits for it, processes that can be killed and paused,
and a store that each process reaches over a wire. Differences between worlds are parameters: which lane runs next, what
happens when nothing is ready, how blocking calls run, and what a wire does to the calls that it carries.
"""
