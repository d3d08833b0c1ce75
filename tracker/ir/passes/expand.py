"""Expansion of composite ops: equations whose op is lowered as other ops are written out.

It runs once, before most passes. `ExpansionBuilder` is what declarations (`Expand.build`,
`Map.requires`) write with.

Invariants: the result has the type of the equation; guards that it needs come before it; an op that
cannot be expanded for these operands stays, and NumPy runs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.errors import IRError
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.lowering import Expand, Map
from tracker.ir.op import OPS, Op
from tracker.ir.passes.common_subexpressions import COMPOSITE
from tracker.ir.passes.manager import BodyWriter, Property, as_pass, rewrite_equations
from tracker.ir.types import is_compilable_dtype
from tracker.ir.weak_integers import narrowed_integers


class ExpansionBuilder:
    """Writes the equations of an expansion; `where` is the source line of the expanded equation."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.steps: list[Eqn | Guard] = []

    def __call__(self, op: Op, *operands: Any, **params: Any) -> Atom:
        """Write an equation and return its result; numbers are literals, composite ops are
        expanded.
        """
        atoms = tuple(x if isinstance(x, (Var, Const)) else Const.of(x) for x in operands)
        if isinstance(op.lower, Expand):
            built = op.lower.build(self, *atoms, **params)
            if isinstance(built, (Var, Const)):
                return built
        out = Var(op.infer(*(atom.type for atom in atoms), **params))
        self.steps.append(Eqn(op, atoms, params, out, self.where))
        return out

    def require(self, condition: Atom) -> None:
        """Make the rest conditional on a bool."""
        self.steps.append(Guard(condition, "bool", True, self.where))


def expand_equation(eqn: Eqn) -> tuple[list[Eqn | Guard], Atom] | str:
    """The steps that an equation expands to and the atom of its result, or why there are none."""
    assert isinstance(eqn.op.lower, Expand)
    foreign = next((o.type for o in eqn.operands if not is_compilable_dtype(o.type.dtype)), None)
    if foreign is not None:
        return f"an array of {foreign.dtype}"
    builder = ExpansionBuilder(eqn.where)
    built = eqn.op.lower.build(builder, *eqn.operands, **eqn.params)
    return built if isinstance(built, str) else (builder.steps, built)


def expand_requirements(eqn: Eqn, lower: Map) -> tuple[list[Eqn | Guard], Atom | None]:
    """The guards that a compiled elementwise equation needs, and a value to replace it, or None."""
    narrowed = narrowed_integers(lower, eqn.operands)
    if lower.requires is None and not narrowed:
        return [], None
    builder = ExpansionBuilder(eqn.where)
    for number, dtype in narrowed:
        limits = np.iinfo(dtype)
        builder.require(builder(OPS["greater_equal"], number, int(limits.min)))
        builder.require(builder(OPS["less_equal"], number, min(int(limits.max), 2**63 - 1)))
    return builder.steps, lower.requires and lower.requires(builder, *eqn.operands)


EXPANDED = Property(
    "ops that are lowered as other ops are written out",
    lambda function: (
        not any(
            isinstance(eqn.op.lower, Expand) and not isinstance(expand_equation(eqn), str)
            for eqn in function.eqns
        )
    ),
)


@as_pass(establishes=(EXPANDED,), removes=(COMPOSITE,))
def expand(function: Function) -> Function:
    """Write out the equations of every op that is lowered as other ops."""

    def rewrite(new: BodyWriter, eqn: Eqn) -> bool | Atom:
        found = _expansion(eqn)
        if found is None:
            return False
        new.body += found[0]
        return found[1]

    return rewrite_equations(function, rewrite)


def _expansion(eqn: Eqn) -> tuple[list[Eqn | Guard], Atom] | None:
    """The steps in place of an equation and the atom of its result; None if it stays."""
    if isinstance(eqn.op.lower, Expand):
        found = expand_equation(eqn)
        if isinstance(found, str):
            return None
        _check_result_type(eqn, found[1])
        return found
    if isinstance(eqn.op.lower, Map):
        needed, instead = expand_requirements(eqn, eqn.op.lower)
        if instead is not None:
            return needed, instead
        return ([*needed, eqn], eqn.out) if needed else None
    return None


def _check_result_type(eqn: Eqn, result: Atom) -> None:
    """Raise if a result has another type: readers would misread its bytes."""
    made, said = result.type, eqn.out.type
    if (made.shape, made.dtype) != (said.shape, said.dtype):
        raise IRError(f"{eqn.op.name} gives {said}, and is expanded to {made}")
