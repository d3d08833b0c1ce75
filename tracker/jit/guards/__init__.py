"""Guards: the conditions under which a compiled specialisation may serve a call.

A specialisation is keyed by the signature of its arguments (`signature.py`) and by the values found
at its sources: closure cells, globals, attributes and other places outside the arguments that the
code can read (`source.py`). `captured_leaves.py` flattens both into one `Signature` and compares
signatures. Constants are compared by value, by identity or by their parts (`constants.py`), classes
by their version tag (`class_guard.py`). `promotion.py` decides which captured numbers become
inputs.

These hold at entry. A branch on a computed value is another guard: a step of the trace (`Guard` in
`ir/graph.py`), which `Tracer.add_guard` records.

Data and comparisons only: no user code runs, and no machine code is written here (`jit/abi`
compiles these checks into the native entry). Start at `signature.py`, then `source.py`.
"""
