"""Common subexpressions of three kinds: equations with one op, operands and params; guards; and a
sort and the argsort of one array.

Invariant: an equation with an opaque param may hold state, so it is not merged with another one.
"""

from __future__ import annotations

from collections.abc import Hashable

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.passes.manager import (
    BodyWriter,
    Property,
    as_pass,
    rewrite_equations,
    substitute,
    with_body,
)
from tracker.ir.structural_keys import const_key, params_key


@as_pass()
def common_subexpressions(function: Function) -> Function:
    """Compute equal equations once, and check equal guards once."""
    seen: dict[Hashable, Var | None] = {}
    by: dict[Var, Atom] = {}
    body: list[Eqn | Guard] = []
    for old in function.body:
        step = substitute(old, by) if by else old
        key = _eqn_key(step) if isinstance(step, Eqn) else _guard_key(step)
        if key is None:
            body.append(step)
        elif key not in seen:
            seen[key] = step.out if isinstance(step, Eqn) else None
            body.append(step)
        elif isinstance(step, Eqn) and (first := seen[key]) is not None:
            by[step.out] = first
    return function if len(body) == len(function.body) else with_body(function, body, by)


def _eqn_key(eqn: Eqn) -> Hashable | None:
    frozen = params_key(eqn.params) if eqn.params else ()
    if frozen is None:
        return None
    return eqn.op, frozen, *[o if o.__class__ is Var else const_key(o) for o in eqn.operands]  # type: ignore[arg-type]


def _guard_key(guard: Guard) -> Hashable | None:
    expected = params_key({guard.kind: guard.expected})
    return None if expected is None else (_atom_key(guard.operand), expected)


def _atom_key(atom: Atom) -> Hashable:
    return const_key(atom) if isinstance(atom, Const) else atom


COMPOSITE = Property("ops that are lowered as other ops are not yet written out")


@as_pass(requires=(COMPOSITE,))
def reuse_sort_order(function: Function) -> Function:
    """sort a, where argsort a is there, too -> a[argsort a]: a pullback of a sort needs the order.

    It runs before `expand`, which writes both ops out. Both are stable, so zeros keep their signs.
    """
    orders = {(e.operands[0], e.params["axis"]) for e in function.eqns if e.op.name == "argsort"}
    if not (orders and function.has_op("sort")):
        return function

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool:
        if eqn.op.name != "sort" or (eqn.operands[0], eqn.params["axis"]) not in orders:
            return False
        array, axis, shape = eqn.operands[0], eqn.params["axis"], eqn.out.type.shape
        order = new.emit("argsort", array, axis=axis)
        positions = [
            order if at == axis else new.emit("iota", shape=shape, axis=at)
            for at in range(len(shape))
        ]
        new.emit("taken", array, *positions, index=("_",) * len(shape), out=eqn.out)
        return True

    return rewrite_equations(function, rewrite)
