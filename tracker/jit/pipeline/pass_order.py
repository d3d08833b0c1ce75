"""The order of the passes over an `ir.Function`; `program.py` has the steps before and after.

`ir/passes/manager.py` checks the order against what passes require, in tests.
"""

from __future__ import annotations

from tracker.config import current, dump
from tracker.ir.graph import Function
from tracker.ir.passes import loop_limits, manager
from tracker.ir.passes.common_subexpressions import (
    COMPOSITE,
    common_subexpressions,
    reuse_sort_order,
)
from tracker.ir.passes.contractions import contract_products
from tracker.ir.passes.dead_code import dead_code
from tracker.ir.passes.dead_stores import eliminate_dead_stores
from tracker.ir.passes.expand import EXPANDED, expand
from tracker.ir.passes.linalg_dtypes import legalize_linalg_dtypes
from tracker.ir.passes.loops.added_zeros import hoist_added_zeros
from tracker.ir.passes.loops.batch import batch_loops
from tracker.ir.passes.loops.prune_results import prune_loop_results
from tracker.ir.passes.loops.rematerialize import rematerialize
from tracker.ir.passes.loops.shared_bodies import DISTINCT_BODIES, dedupe_bodies
from tracker.ir.passes.matmul_rewrites import rewrite_products
from tracker.ir.passes.scatter import rewrite_scatters
from tracker.ir.passes.simplify import simplify, simplify_writers
from tracker.ir.verify import verify
from tracker.jit.pipeline.partition import is_one_call, why_host
from tracker.jit.runtime import lazy_imports


def _roll(function: Function) -> Function:
    """Roll repetition into loops, in a body that is long enough."""
    if len(function.body) < loop_limits.MIN_BODY:
        return function
    calls = function.calls_python and is_one_call(function)
    rolled: Function = lazy_imports.roll(lambda eqn: not why_host(eqn, calls)).body(function)
    return rolled


PASSES = (
    dedupe_bodies,
    reuse_sort_order,
    expand,
    legalize_linalg_dtypes,
    common_subexpressions,
    simplify,
    common_subexpressions,  # what differed by an identity
    rewrite_products,
    rewrite_scatters,
    hoist_added_zeros,
    common_subexpressions,
    dead_code,
    prune_loop_results,
    dead_code,
    eliminate_dead_stores,
    dead_code,
    manager.Pass(
        "roll",
        _roll,
        requires=(EXPANDED, DISTINCT_BODIES),
        establishes=(loop_limits.ROLLED,),
    ),
    batch_loops,
    simplify_writers,
    common_subexpressions,  # of a loop's body and what is around it
    contract_products,
    dead_code,
    prune_loop_results,
    dead_code,
    rematerialize,
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
