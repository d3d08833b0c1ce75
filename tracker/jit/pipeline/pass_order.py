"""The order of the passes over an `ir.Function`; `program.py` has the steps before and after.

`ir/passes/manager.py` checks the order against what passes require, in tests.
"""

from __future__ import annotations

from tracker.config import current, dump
from tracker.ir.graph import Function
from tracker.ir.passes import manager
from tracker.ir.passes.branch_scatters import hoist_branch_scatters
from tracker.ir.passes.common_subexpressions import (
    COMPOSITE,
    common_subexpressions,
    reuse_sort_order,
)
from tracker.ir.passes.contractions import contract_products
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.dead_stores import eliminate_dead_stores
from tracker.ir.passes.expand import expand
from tracker.ir.passes.linalg_dtypes import legalize_linalg_dtypes
from tracker.ir.passes.loops.added_zeros import hoist_added_zeros
from tracker.ir.passes.loops.batch import batch_loops
from tracker.ir.passes.loops.prune_results import prune_loop_results
from tracker.ir.passes.loops.shared_bodies import dedupe_bodies
from tracker.ir.passes.matmul_rewrites import rewrite_products
from tracker.ir.passes.scatter import rewrite_scatters
from tracker.ir.passes.simplify import simplify
from tracker.ir.verify import verify

PASSES = (
    dedupe_bodies,
    reuse_sort_order,
    expand,
    legalize_linalg_dtypes,
    common_subexpressions,
    simplify,
    common_subexpressions,  # what differed by an identity
    rewrite_products,
    hoist_branch_scatters,
    rewrite_scatters,
    hoist_added_zeros,
    common_subexpressions,
    dead_code,
    prune_loop_results,
    dead_code,
    prune_loop_results,  # what only pullbacks would have read that read less now
    eliminate_dead_stores,
    dead_code,
    batch_loops,
    contract_products,
    dead_code,
    prune_loop_results,
    dead_code,
)


def optimise(function: Function) -> Function:
    """The function after all passes. (That it is valid was not checked while tracing: the call that
    traces does not wait for that.)"""
    verify(function)
    settings = current()
    dump("trace", lambda: str(function))
    done = manager.run(function, PASSES, check=settings.check, given=(COMPOSITE,))
    dump("ir", lambda: str(done))
    return done
