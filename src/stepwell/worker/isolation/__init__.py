"""Steps in a process of their own: it is started for one attempt and killed with all that it started.

The worker calls `parent.py`; the process runs `child.py`. They exchange the frames of `frames.py`, in typed JSON. The
child imports a module by the name of the function in the parent's memory, never by a stored name.
"""
