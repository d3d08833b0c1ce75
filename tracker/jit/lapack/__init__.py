"""Dense linear algebra in machine code: the lowering kind `Routine`.

A routine is a function of IR text over matrices: loops for small matrices, calls of LAPACK and BLAS
for others. `routine_writer.py` writes loops as text and `library_calls.py` the calls;
`cholesky.py`, `lu.py`, `eigen_svd.py`, `expm.py` and `packed.py` hold the routines; `routines.py`
compiles a routine when it is first needed. `plan.py` makes routines part of a plan.

Knows `ir`, `llvm`, `runtime` and `scalar`. Start at `routines.py`.
"""
