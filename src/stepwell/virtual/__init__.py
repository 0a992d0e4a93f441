"""The virtual world that the test kit, the simulation and the tests of stepwell share.

One event loop on which time passes only when everything waits for it, processes that can be killed and paused, and a
store as each of them reaches it. What differs between worlds is a parameter: which lane runs next, what happens when
nothing is ready, how blocking calls run, and what a wire does to the calls that it carries.
"""
