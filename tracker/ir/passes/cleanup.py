"""Cleanup: dead code, and common subexpressions of four kinds; values of literals.

Common are equations with one op, operands and params; guards; a sort and the argsort of one array;
and nested functions that are equal up to the names of their variables.

Invariant: an equation with an opaque param may hold state, so it is neither merged nor evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from tracker.errors import EVALUATION_ERRORS
from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import (
    Atom,
    Const,
    Eqn,
    Function,
    Guard,
    Var,
    has_side_effects,
    nested_functions,
)
from tracker.ir.lowering import Map, Routine
from tracker.ir.passes.manager import (
    BodyWriter,
    Property,
    as_pass,
    replace_nested,
    rewrite_equations,
    substitute,
    with_body,
)
from tracker.ir.structural_keys import const_key, params_key
from tracker.ir.types import Type, type_of
from tracker.support.structs import replace


@as_pass()
def dead_code(function: Function) -> Function:
    """Drop equations that no output or guard needs, and unused nested functions.

    Equations that may raise stay, and those with side effects.
    """
    kept = needed_steps(function.body, function.outputs)
    if len(kept) < len(function.body):
        function = with_body(function, kept)
    return _without_unused_functions(function)


def needed_steps(body: Sequence[Eqn | Guard], outputs: Iterable[Atom]) -> list[Eqn | Guard]:
    """The steps of a body that are not dead."""
    live = set(outputs)
    kept: list[Eqn | Guard] = []
    for step in reversed(body):
        if isinstance(step, Eqn):
            if step.out not in live and not has_side_effects(step) and not _may_raise(step):
                continue
            live.update(step.operands)
        else:
            live.add(step.operand)
        kept.append(step)
    return kept[::-1]


def _may_raise(eqn: Eqn) -> bool:
    """Whether NumPy or Python raises for some operands: programs may rely on that alone."""
    lower = eqn.op.lower
    if isinstance(lower, Map):
        known = isinstance(eqn.operands[-1], Const)  # usually the divisor
        return lower.defined is not None and eqn.out.type.weak and not known
    if isinstance(lower, Routine):
        return lower.may_raise
    nested = nested_functions((eqn,)).values()
    return any(isinstance(s, Guard) or _may_raise(s) for v in nested for s in v.body)


def _without_unused_functions(function: Function) -> Function:
    if not function.functions:
        return function
    used = set(nested_functions(function.body).values())
    functions = {name: nested for name, nested in function.functions.items() if nested in used}
    if len(functions) == len(function.functions):
        return function
    return replace(function, functions=functions)


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


DISTINCT_BODIES = Property("nested functions that are equal when traced are one")


@as_pass(establishes=(DISTINCT_BODIES,))
def dedupe_bodies(function: Function) -> Function:
    """Have equations with equal nested functions refer to the first of these.

    A Python loop around `cond` or `scan` traces the bodies at each step: without this pass, 160
    steps would be 160 functions to simplify, plan and compile, and no loop could be made of them,
    because steps that refer to different functions are not equal.
    """
    if len(function.functions) < 2:
        return function
    first: dict[Hashable, Function] = {}
    changed: dict[Function, Function] = {}
    for nested in function.functions.values():
        changed[nested] = first.setdefault(fingerprint(nested) or nested, nested)
    kept = {nested.name: nested for nested in first.values()}
    return function if len(kept) == len(changed) else replace_nested(function, changed, kept)


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
