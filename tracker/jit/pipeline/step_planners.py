"""Which function plans each kind of equation that is not a loop nest.

Each module is imported when a program first has an equation of its kind: the planner is handed this
table and knows none of the kernels.
"""

from __future__ import annotations

from tracker.ir.lowering import (
    Contract,
    Host,
    LocateSelected,
    Routine,
    Search,
    Select,
    Sort,
    UfuncCall,
)
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.schedule.steps import StepPlanners

_KERNELS = "tracker.jit.kernels."

STEP_PLANNERS = StepPlanners(
    {
        Contract: lazy_import(_KERNELS + "blas_matmul", "plan_product"),
        Host: lazy_import(_KERNELS + "python_callbacks", "plan_callback"),
        LocateSelected: lazy_import(_KERNELS + "selection", "plan_locate"),
        Routine: lazy_import("tracker.jit.lapack.plan", "plan_call"),
        Search: lazy_import(_KERNELS + "binary_search", "plan_search"),
        Select: lazy_import(_KERNELS + "selection", "plan_select"),
        Sort: lazy_import(_KERNELS + "sort", "plan_sort"),
        UfuncCall: lazy_import(_KERNELS + "ufunc_calls", "plan_ufunc"),
    },
    row_operands=lazy_import(_KERNELS + "tall_matmul", "row_operands"),
)
