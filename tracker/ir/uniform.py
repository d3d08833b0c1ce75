"""Products of a matrix whose rows are all alike: one row is multiplied, and the result repeated.

Owns: the pass `uniform_products`. The pullback of a plain sum begins with such a matrix, and what
it is multiplied by gives another one:

    ones(m, k) @ b    ->    broadcast_to(ones(1, k) @ b, (m, n))

and so for a second factor whose columns are all alike. Along which axes a value is the same follows
from broadcasts, and through elementwise ops, transposes and products.

Invariants: types stay; linear in the equations; each row is the row that the product has, but for
the order of its sums, which BLAS chooses freely anyway.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn, Function
from tracker.ir.op import Contract, Map
from tracker.ir.passes import Writer, as_pass, with_body


@as_pass
def uniform_products(function: Function) -> Function:
    """Multiply one of the rows, or columns, that are alike."""
    if not any(isinstance(op.lower, Contract) for op in function.ops):
        return function
    new = Writer()
    alike: dict[Atom, frozenset[int]] = {}  # the axes along which a value is the same everywhere
    for step in function.body:
        if not isinstance(step, Eqn):
            new.body.append(step)
            continue
        axes = _along(step, alike)
        if axes:
            alike[step.out] = axes
        new.where = step.where
        if axes and isinstance(step.op.lower, Contract):
            _write(new, step, alike)
        else:
            new.body.append(step)
    return with_body(function, new.body) if len(new.body) > len(function.body) else function


def _write(new: Writer, eqn: Eqn, alike: dict[Atom, frozenset[int]]) -> None:
    a, b = eqn.operands
    if a.type.ndim - 2 in alike.get(a, ()):
        a = _first(new, a, a.type.ndim - 2)
    if b.type.ndim > 1 and b.type.ndim - 1 in alike.get(b, ()):
        b = _first(new, b, b.type.ndim - 1)
    product = new.make(eqn.op.name, a, b, **eqn.params)
    new.make("broadcast_to", product, shape=eqn.out.type.shape, out=eqn.out)


def _first(new: Writer, array: Atom, axis: int) -> Atom:
    """What stands first along an axis, which stays."""
    index = [slice(0, extent, 1) for extent in array.type.shape]
    index[axis] = slice(0, 1, 1)
    return new.make("getitem", array, index=tuple(index))


def _along(eqn: Eqn, alike: dict[Atom, frozenset[int]]) -> frozenset[int]:
    """The axes of more than one element along which what an equation gives is the same."""
    shape = eqn.out.type.shape
    if isinstance(eqn.op.lower, Contract):
        axes = _of_product(eqn, alike)
    elif eqn.op.name == "transpose" and eqn.operands[0] in alike:
        order = eqn.params["axes"] or range(len(shape))[::-1]
        axes = {at for at, axis in enumerate(order) if axis % len(shape) in alike[eqn.operands[0]]}
    elif eqn.op.name == "broadcast_to" or isinstance(eqn.op.lower, Map):
        axes = set(range(len(shape)))
        for o in eqn.operands:
            ahead = len(shape) - o.type.ndim
            axes -= {
                ahead + axis
                for axis, extent in enumerate(o.type.shape)
                if extent > 1 and axis not in alike.get(o, ())
            }
    else:
        return frozenset()
    return frozenset([axis for axis in axes if shape[axis] > 1])


def _of_product(eqn: Eqn, alike: dict[Atom, frozenset[int]]) -> set[int]:
    a, b = eqn.operands
    last, axes = eqn.out.type.ndim - 1, set()
    if b.type.ndim > 1:
        axes |= {last} if b.type.ndim - 1 in alike.get(b, ()) else set()
        last -= 1
    if a.type.ndim - 2 in alike.get(a, ()):
        axes.add(last)
    return axes
