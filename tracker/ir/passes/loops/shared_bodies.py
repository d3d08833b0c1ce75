"""Nested functions that are equal up to the names of variables, or up to numbers, become one.

A Python loop around `cond` or `scan`, or several calls of a solver, trace the bodies each time:
without this pass, 160 steps would be 160 functions to simplify, plan and compile, and no loop could
be made of them, because steps that refer to different functions are not equal. Numbers that differ
between the bodies of loops (the end of a solver's interval, a number of the user's in a closure)
become constants of the loops, which are operands.

Invariants: a literal becomes an operand only of ops whose result is exact, so that it is the same
whether the compiler, NumPy, or machine code computes it; and only of bodies so long that to load
the operand is nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from tracker.ir.fingerprint import fingerprint
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, unused_name
from tracker.ir.lowering import Loop, While
from tracker.ir.passes.manager import as_pass
from tracker.ir.structural_keys import const_key
from tracker.support.structs import record, replace

_MIN_STEPS = 40  # of a body
_EXACT = frozenset(
    {"add", "subtract", "multiply", "divide", "minimum", "maximum", "where", "less", "greater"}
)
# The param with the number of constants of each body; those of a condition come first.
_CONSTANTS = {Loop: {"body": "consts"}, While: {"cond": "cond_consts", "body": "body_consts"}}

_Place = tuple[int, int]  # of a literal: step and operand


@record(frozen=True)
class _Shared:
    """A body that stands for another one, given these numbers first."""

    function: Function
    numbers: tuple[Const, ...] = ()


@as_pass()
def dedupe_bodies(function: Function) -> Function:
    """Have equations with nested functions that are alike refer to one."""
    if len(function.functions) < 2:
        return function
    in_branches = {
        value
        for eqn in function.eqns
        if type(eqn.op.lower) not in _CONSTANTS
        for value in eqn.params.values()
        if isinstance(value, Function)
    }
    alike = defaultdict[Hashable, list[tuple[Function, dict[_Place, Const]]]](list)
    for nested in function.functions.values():
        free = {} if nested in in_branches else dict(_free_literals(nested))
        zeros = {place: Const(type(x.value)(0), x.type) for place, x in free.items()}
        key = fingerprint(_with_atoms(nested, zeros))
        alike[nested if key is None else (key, nested in in_branches)].append((nested, free))
    if len(alike) == len(function.functions):
        return function
    shared: dict[Function, _Shared] = {}
    for group in alike.values():
        shared.update(_share(group))
    kept = {each.function.name: each.function for each in shared.values()}
    body = tuple([_refer_to(step, shared) for step in function.body])
    return replace(function, body=body, functions=kept)


def _free_literals(function: Function) -> Iterator[tuple[_Place, Const]]:
    """The real literals that may as well be variables, by place."""
    if len(function.body) < _MIN_STEPS:
        return
    for at, step in enumerate(function.body):
        if isinstance(step, Eqn) and step.op.name in _EXACT and len(step.operands) > 1:
            for number, atom in enumerate(step.operands):
                if isinstance(atom, Const) and atom.type.dtype.kind == "f":
                    yield (at, number), atom


def _with_atoms(function: Function, atoms: Mapping[_Place, Atom]) -> Function:
    """The function with other atoms in some places."""
    body = list(function.body)
    for (at, number), atom in atoms.items():
        eqn = body[at]
        assert isinstance(eqn, Eqn)
        operands = (*eqn.operands[:number], atom, *eqn.operands[number + 1 :])
        body[at] = Eqn(eqn.op, operands, eqn.params, eqn.out, eqn.where)
    return replace(function, body=tuple(body)) if atoms else function


def _share(
    group: Sequence[tuple[Function, dict[_Place, Const]]],
) -> Iterator[tuple[Function, _Shared]]:
    """What stands for each body of a group whose members differ in literals only."""
    first, of_first = group[0]
    columns: dict[Hashable, list[Const]] = {}  # different numbers
    inputs: dict[Hashable, Var] = {}
    atoms: dict[_Place, Atom] = {}
    for place, literal in of_first.items():
        column = [free[place] for _, free in group]
        key = tuple(map(const_key, column))
        if len({*key}) == 1:
            continue
        if key not in columns:
            taken = {var.name for var in (*first.inputs, *inputs.values())}
            columns[key], inputs[key] = column, Var(literal.type, unused_name("number", taken))
        atoms[place] = inputs[key]
    body = _with_atoms(first, atoms)
    if inputs:
        body = replace(body, inputs=(*inputs.values(), *first.inputs))
    rows = zip(*columns.values(), strict=True) if columns else [()] * len(group)
    for (nested, _), numbers in zip(group, rows, strict=True):
        yield nested, _Shared(body, numbers)


def _refer_to(step: Eqn | Guard, shared: Mapping[Function, _Shared]) -> Eqn | Guard:
    """A step with the bodies that stand for its own."""
    if isinstance(step, Guard):
        return step
    given = {name: x for name, x in step.params.items() if isinstance(x, Function)}
    if all(shared[x].function is x for x in given.values()):
        return step
    params: dict[str, Any] = {**step.params, **{k: shared[x].function for k, x in given.items()}}
    operands = list(step.operands)
    at = 1 if isinstance(step.op.lower, Loop) else 0  # a length first
    for name, count in _CONSTANTS.get(type(step.op.lower), {}).items():
        numbers = shared[given[name]].numbers
        operands[at:at] = numbers
        params[count] += len(numbers)
        at += params[count]
    return replace(step, operands=tuple(operands), params=params)
