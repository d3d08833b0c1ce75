"""The plan of a compiled function: a storage location for each value, loop nests, their order.

A plan is data (`plan_data.py`): locations and buffers, and for each level the steps that run there.
`plan.py` makes it in one pass over the equations. `elementwise_fusion.py` computes an elementwise
value inside of the loops that read it, unless the cost model (`cost.py`) finds that storing it is
cheaper, and `reduction_fusion.py` moves a reduction into a larger loop; `placement.py` says where
values are stored. `inplace.py` and `write_chains.py` update arrays in place, `buffer_coalescing.py`
and `buffer_allocation.py` share memory between buffers once the code is written.

Knows `ir`, the layouts of `ops`, and the scalar emitter by its type. Never LLVM text, kernels, or
BLAS: a kernel written by hand plans itself (`steps.py`) and is handed in.

Invariants: levels never decrease along uses, so running levels in order is a legal schedule;
planning is linear in the number of equations.

Start at `Planner.plan_step` in `plan.py`.
"""
