"""The native call: a C function for each specialisation, and the callable type that calls it.

An entry checks the arguments against a signature (`call_checks.py`), allocates results, runs the
plan, builds the value to return (`results.py`) and writes state and arguments (`state_writes.py`,
`array_writes.py`); a mismatch or a failed guard calls the next entry, at last the slow path in
Python. `entry.py` joins these parts to a text, `loader.py` binds its names and loads it, and
`native_callable.py` is the type whose instances are called without a Python frame. With many
entries `dispatch_table.py` finds the one for a call by shapes.

Knows the data of `guards`, and `runtime`; never traces or plans. Start at `entry.py`.
"""
