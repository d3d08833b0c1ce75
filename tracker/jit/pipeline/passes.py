"""The passes over an `ir.Function`, in order.

Owns: `PASSES`, and `optimise`, which runs them. What comes before and after: `program.py`.
"""

from __future__ import annotations

from tracker.config import current, dump
from tracker.ir.graph import Function
from tracker.ir.passes import cleanup, loop_limits, manager
from tracker.ir.passes.dead_stores import unseen_writes
from tracker.ir.passes.expand import expand
from tracker.ir.passes.linalg_dtypes import widen
from tracker.ir.passes.loops.dedupe_bodies import share_bodies
from tracker.ir.passes.loops.prune_results import unused_results
from tracker.ir.passes.loops.rematerialize import residuals
from tracker.ir.passes.matmul_batching import (
    batch_products,
    factor_products,
    join_products,
    outer_products,
    uniform_products,
)
from tracker.ir.passes.matmul_layout import common_layouts, sink_transposes
from tracker.ir.passes.scatter import add_in_place, scattered_last
from tracker.ir.passes.simplify import simplify
from tracker.ir.passes.sort_sharing import sort_once
from tracker.ir.passes.window_matmul import sum_columns
from tracker.jit.pipeline.partition import is_one_call, why_host
from tracker.jit.runtime import lazy_imports


def _roll(function: Function) -> Function:
    """Loops of what repeats itself, in a body that is long enough for it."""
    if len(function.body) < loop_limits.SHORT:
        return function
    calls = function.calls_back and is_one_call(function)
    rolled: Function = lazy_imports.roll(lambda eqn: not why_host(eqn, calls)).body(function)
    return rolled


PASSES = (
    share_bodies,
    sort_once,
    expand,
    widen,
    cleanup.common_subexpressions,
    cleanup.constant_folding,
    simplify,
    cleanup.common_subexpressions,  # what differed by an identity
    uniform_products,
    batch_products,
    join_products,
    factor_products,
    outer_products,
    sum_columns,
    scattered_last,
    add_in_place,
    cleanup.common_subexpressions,
    cleanup.dead_code,
    unused_results,
    cleanup.dead_code,
    unseen_writes,
    cleanup.dead_code,
    common_layouts,
    manager.Pass("roll", _roll),
    sink_transposes,
    residuals,
    cleanup.dead_code,
)


def optimise(function: Function) -> Function:
    """The function after all passes."""
    settings = current()
    dump("trace", lambda: str(function))
    done = manager.run(function, PASSES, check=settings.check)
    dump("ir", lambda: str(done))
    return done
