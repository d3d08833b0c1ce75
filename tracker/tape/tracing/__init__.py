"""What the tape does for traces alone. (`tracker.jit.tracing` runs a function and starts a trace.)

A `Tracer` observes what is recorded and writes the equations down (`tracer.py`). Large results may
be lazy: shape, dtype and strides are known, the numbers are computed when something reads them
(`lazy.py`). Values may escape into plain Python under a guard (`escape.py`, `value_guards.py`).
Tracked arrays stand as placeholders in the user's own objects (`placeholders.py`). Arrays that
nothing can read any more are freed (`liveness.py`). Numbers that are computed in the same way are
made one before they are differentiated (`value_numbering.py`). Subscripts in a Python loop hold for
all its iterations (`loop_index.py`), and arguments tell of the caller's arrays
(`alias_queries.py`).
"""
