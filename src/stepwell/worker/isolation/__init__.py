"""Steps in a process of their own: started for one attempt, killed with all it started, never trusted to answer.

`parent.py` is called by the worker, `child.py` is what runs; they speak in the frames of `frames.py`, which are typed
JSON. The child imports a module by the name that the function has in the parent's memory, never by a stored one.
"""
