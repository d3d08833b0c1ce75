"""Products over one term: a column times a row is no matter for BLAS.

Owns: the pass `outer_products`. The pullback of a matrix times a vector is such a product:

    a: f64[m,1] @ b: f64[1,n]    ->    a * b + 0.0

As a loop it is fused with what reads it, which need not read a matrix from memory. The sum is what
NumPy's product is, too: 0.0 where the factors' product is -0.0. It comes after `joining.py`, which
makes one product of the outer products that are added up.

Invariants: types stay; the same numbers, signed zeros included; linear in the equations.
"""

from __future__ import annotations

from tracker.ir.graph import Const, Eqn, Function
from tracker.ir.op import Contract
from tracker.ir.passes import Writer, as_pass, with_body


@as_pass
def outer_products(function: Function) -> Function:
    """Write products over one term as products of elements."""
    if not any(isinstance(op.lower, Contract) for op in function.ops):
        return function
    new = Writer()
    for step in function.body:
        if not isinstance(step, Eqn) or not _is_outer(step):
            new.body.append(step)
            continue
        new.where = step.where
        nothing = Const.of(step.out.type.dtype.type(0))
        new.make("add", new.make("multiply", *step.operands), nothing, out=step.out)
    return with_body(function, new.body) if len(new.body) > len(function.body) else function


def _is_outer(eqn: Eqn) -> bool:
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype.kind not in "fc":
        return False
    a, b = (operand.type for operand in eqn.operands)
    return min(a.ndim, b.ndim) > 1 and a.shape[-1] == 1 and a.dtype == b.dtype
