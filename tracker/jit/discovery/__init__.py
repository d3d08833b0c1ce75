"""Discovery: what a function can read, write and call besides its arguments, found before it runs.

`captured_state.py` follows the names in the bytecode (`bytecode.py`) from the function to the
functions, objects, classes and modules it can reach, and returns a `CapturedState`: the sources to
read on each call, and what tracing must prepare for. User code is followed, library code is not
(`user_code.py`, `stdlib_objects.py`); pandas and xarray objects and sparse arrays are compared by
their contents (`library_contents.py`). `impure_calls.py` and `purity_table.py` find calls whose
result may differ each time; `builtin_shims.py` replaces `type`, `isinstance` and the like while a
function is traced.

No user code runs, and nothing is traced here. Knows `jit/guards`, the tape, `random` and
`autodiff/boundary`. Start at `captured_state.py`.
"""
