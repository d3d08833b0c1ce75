"""What is sorted, and whose order is asked for, is sorted once.

Owns: the pass `sort_once`. The pullback of a sort asks for the order:

    y = sort a;  o = argsort a    ->    o = argsort a;  y = a[o]

It comes before `expand`, which says how the two are done.

Invariants: types stay; the same numbers (of zeros of both signs, in the order that they had, as
NumPy's stable sort); linear in the equations.
"""

from __future__ import annotations

from typing import Any

from tracker.ir.graph import Eqn, Function
from tracker.ir.passes.manager import BodyWriter, as_pass, with_body

_HOLE = "_"  # in an index: the next operand (`ops/indexing/gather_scatter.py`)


@as_pass
def sort_once(function: Function) -> Function:
    """Read what is sorted by the order that is there anyway."""
    if not function.has_op("sort"):
        return function
    orders = {_sorted(eqn) for eqn in function.eqns if eqn.op.name == "argsort"}

    def is_known(eqn: Eqn) -> bool:
        return eqn.op.name == "sort" and _sorted(eqn) in orders

    if not any(map(is_known, function.eqns)):
        return function
    new = BodyWriter()
    for step in function.body:
        if isinstance(step, Eqn) and is_known(step):
            _read(new, step)
        else:
            new.body.append(step)
    return with_body(function, new.body)


def _sorted(eqn: Eqn) -> tuple[Any, int]:
    return eqn.operands[0], eqn.params["axis"]


def _read(new: BodyWriter, eqn: Eqn) -> None:
    """The rows of an array in their order."""
    array, axis = _sorted(eqn)
    shape, new.where = eqn.out.type.shape, eqn.where
    order = new.emit("argsort", array, axis=axis)
    places = [
        order if at == axis else new.emit("iota", shape=shape, axis=at) for at in range(len(shape))
    ]
    new.emit("taken", array, *places, index=(_HOLE,) * len(shape), out=eqn.out)
