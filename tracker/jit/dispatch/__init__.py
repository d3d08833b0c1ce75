"""Dispatch: the Python side of a call of a jitted function.

The native entry serves calls that match a compiled specialisation. All others arrive at
`jitted.py`, which runs a matching trace without its entry, traces the call, or falls back to plain
Python. `specialization.py` has the traces of each signature and matches them, `trace_policy.py`
decides which traces are kept and compiled, `mask_traces.py` makes one trace of those that differ in
how much masks select, `first_call.py` decides whether NumPy or machine code computes the result of
a traced call, `relayout.py` copies arrays that no entry takes, `captured_state_snapshot.py` keeps
captured state for a later pullback, `recorded_calls.py` makes a call within an eager derivative one
operation, and `visible_calls.py` lets profilers see calls.

Knows all of `jit` except `explain`, `profile`, `export` and `api`. Start at
`JittedState.call_slow`.
"""
