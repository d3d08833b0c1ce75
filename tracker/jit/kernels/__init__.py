"""Kernels written by hand: matrix products, sorting, selection, search, foreign ufuncs, callbacks.

Each file has a step of the plan (a class with `emit`), the function that plans it, and the LLVM
text of its routine. `blas_matmul.py` calls BLAS, or the loops of `small_matmul.py` and
`tall_matmul.py`; `portable_blas.py` replaces BLAS in exported code. `sort.py` and `selection.py`
share the `sorting_networks.py`. `python_callbacks.py` and `ufunc_calls.py` call out of machine
code.

Knows the planner (`schedule`) and emits text through the `Driver` protocol; nothing lower imports
these files. `jit/pipeline/step_planners.py` maps kinds of equations to them, and imports each when
a program first needs it.

Invariant: operands are read in C order at the level at which they are ready; a step writes only its
own result and scratch.
"""
