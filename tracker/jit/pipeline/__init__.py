"""The pipeline from a trace to machine code.

In order: passes over the IR (`pass_order.py`), partition into native segments and host calls
(`partition.py`), plan (`jit/schedule`, with `loop_carried.py` and the kernels of
`step_planners.py`), text (`jit/codegen`), linking (`link.py`). `Program` in `program.py` runs these
steps on demand and `lowered_cache.py` keeps their result on disk. `compile_call` in `compile.py`
chooses between one native entry and the `executor.py`, which runs native segments and NumPy calls
in turn; `meter.py` compiles and times the same for `f.profile`.

Knows all of `jit` but its dispatch. Heavy modules are imported when a step first runs
(`jit/runtime/lazy_imports.py`): a program that is found in the cache imports no compiler.

Start at `compile_call`.
"""
