"""Constant folding: the values of equations of literals, and of guards on them.

Invariant: an equation with an opaque param may hold state, so it is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.errors import EVALUATION_ERRORS
from tracker.ir.graph import Const, Eqn, Guard, nested_functions
from tracker.ir.structural_keys import params_key
from tracker.ir.types import Type, type_of

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int}


def guard_holds(guard: Guard) -> bool:
    """Whether a guard on a literal holds."""
    operand, convert = guard.operand, _CONVERSIONS.get(guard.kind)
    if not isinstance(operand, Const) or convert is None:
        return False
    try:
        return bool(convert(operand.value) == guard.expected)
    except (TypeError, ValueError, OverflowError):  # int(nan)
        return False


def evaluate_literals(eqn: Eqn) -> Const | None:
    """The value of an equation of literals, as NumPy computes it; None if there is none."""
    if not eqn.operands or eqn.out.type.shape:
        return None
    values = []
    for operand in eqn.operands:
        if not isinstance(operand, Const):
            return None
        values.append(operand.value)
    if params_key(eqn.params) is None or nested_functions((eqn,)):
        return None
    with np.errstate(all="ignore"):
        try:
            return _literal(eqn.op.evaluate(*values, **eqn.params), eqn.out.type)
        except EVALUATION_ERRORS:  # raised at run time, if the equation is reached
            return None


def _literal(result: Any, type: Type) -> Const | None:
    """A result as a literal of the given type, if it is one."""
    value = np.asarray(result)[()]
    if type.weak:
        value = value.item()
    return Const(value, type) if type_of(value) == type else None
