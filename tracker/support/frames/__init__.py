"""Running frames and what objects hold.

call_names.py   the name of the call that a frame is executing, for messages
stored_into.py  the array that a frame stores into
holders.py      where objects and containers hold an object
cpython.py      local names of frames, what follows an instruction; lets errors of `__float__`
                through NumPy
"""
