"""The passes over an `ir.Function`, in order.

Owns: `PASSES`, and `optimise`, which runs them. What comes before and after: `program.py`.
"""

from __future__ import annotations

from tracker.config import current, dump
from tracker.ir import passes, repeats
from tracker.ir.alike import share_bodies
from tracker.ir.columns import sum_columns
from tracker.ir.expand import expand
from tracker.ir.factoring import factor_products
from tracker.ir.graph import Function
from tracker.ir.joining import batch_products, join_products
from tracker.ir.layouts import common_layouts
from tracker.ir.outer import outer_products
from tracker.ir.prune import unused_results
from tracker.ir.residuals import residuals
from tracker.ir.scattering import add_in_place
from tracker.ir.simplify import simplify
from tracker.ir.sinking import sink_transposes
from tracker.ir.sorts import sort_once
from tracker.ir.spreading import scattered_last
from tracker.ir.uniform import uniform_products
from tracker.ir.unseen import unseen_writes
from tracker.ir.widening import widen
from tracker.jit import rare
from tracker.jit.partition import is_one_call, why_host


def _roll(function: Function) -> Function:
    """Loops of what repeats itself, in a body that is long enough for it."""
    if len(function.body) < repeats.SHORT:
        return function
    calls = function.calls_back and is_one_call(function)
    rolled: Function = rare.roll(lambda eqn: not why_host(eqn, calls)).body(function)
    return rolled


PASSES = (
    share_bodies,
    sort_once,
    expand,
    widen,
    passes.common_subexpressions,
    passes.constant_folding,
    simplify,
    passes.common_subexpressions,  # what differed by an identity
    uniform_products,
    batch_products,
    join_products,
    factor_products,
    outer_products,
    sum_columns,
    scattered_last,
    add_in_place,
    passes.common_subexpressions,
    passes.dead_code,
    unused_results,
    passes.dead_code,
    unseen_writes,
    passes.dead_code,
    common_layouts,
    passes.Pass("roll", _roll),
    sink_transposes,
    residuals,
    passes.dead_code,
)


def optimise(function: Function) -> Function:
    """The function after all passes."""
    settings = current()
    dump("trace", lambda: str(function))
    done = passes.run(function, PASSES, check=settings.check)
    dump("ir", lambda: str(done))
    return done
