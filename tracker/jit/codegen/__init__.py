"""Code generation: from a plan to the text of LLVM modules.

A plan becomes one function `@plan(ptr %slots)`, the driver: straight-line code for unrolled values
and guards (`unrolled.py`, over the values in registers of `registers.py`), and calls of loop nests
and steps, level by level (`lower.py`). A kernel is a function of its own (`loop_nest.py`, its
innermost code in `loop_body.py`, its reductions in `reductions.py`); loops, whiles and branches
call bodies that are drivers, too (`control_flow.py`). The finished functions are deduplicated and
divided into modules by their length (`kernel_modules.py`); the result is an
`artifact.LoweredProgram`. For `f.profile`, `stopwatch.py` times the steps.

Knows the plan (`schedule`), the emitter of scalar code (`scalar`) and the runtime's symbols. Never
what a hand-written kernel does: a step of the plan emits itself.

Invariants: generated text depends on the plan alone (no addresses, no hash order), so equal
programs give equal text, which the caches rely on; a value in a register dominates all code after
it.

Start at `DriverWriter.emit` in `lower.py`.
"""
