"""The op `branch`: one of several functions of the same arguments, chosen by a number.

Owns: the op (see `ir.op.Branch`), its rules, and `run_branch`. Derivatives are branches on the same
number: what was not taken contributes nothing, whatever it would have been.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.control.body import Nested, asks_of_integers, cut, like, moves, nest
from tracker.control.carry_types import as_type, joined
from tracker.control.loop import pushed
from tracker.control.loop_pullback import arrives, pullback_of, spread
from tracker.ir.graph import Function
from tracker.ir.lowering import Branch
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type
from tracker.ops.declare.bundle import Parts, parts_of
from tracker.tape.record import apply, data_of
from tracker.tape.replay import replay


def infer(index: Type, *operands: Type, **branches: Function) -> Type:
    first = [atom.type for atom in branches["branch0"].outputs]
    for branch in branches.values():
        if list(operands) != [v.type for v in branch.inputs]:
            raise TypeError(f"{branch.name} takes {[str(v.type) for v in branch.inputs]}")
        if [atom.type for atom in branch.outputs] != first:
            raise TypeError(f"{branch.name} gives {[str(atom.type) for atom in branch.outputs]}")
    return Bundle.of(first)


def evaluate(index: Any, *operands: Any, **branches: Function) -> tuple[Any, ...]:
    return tuple(replay(branches[f"branch{int(index)}"], operands))


def run_branch(index: Any, branches: Sequence[Nested], operands: Sequence[Any]) -> list[Any]:
    """Record a branch; its results. What one branch reached from outside, all are given."""
    types = [
        functools.reduce(joined, column)
        for column in zip(*(b.types for b in branches), strict=True)
    ]
    hoisted = [x for branch in branches for x in branch.hoisted]
    counts = [len(branch.hoisted) for branch in branches]

    def of(at: int) -> Callable[..., list[Any]]:
        def body(*flat: Any) -> list[Any]:
            *reached, given = cut(flat, *counts)
            made = replay(branches[at].function, [*reached[at], *given])
            return [as_type(x, type) for x, type in zip(made, types, strict=True)]

        return body

    given = [*hoisted, *operands]
    samples = [data_of(x) for x in given]
    with np.errstate(all="ignore"):
        alike = [nest(f"branch{at}", of(at), samples) for at in range(len(branches))]
    return _record(index, alike, given)


def _record(index: Any, branches: Sequence[Nested], given: Sequence[Any]) -> list[Any]:
    """The results of branches that are alike and reach nothing from outside."""
    assert not any(branch.hoisted for branch in branches)
    functions = {f"branch{at}": branch.function for at, branch in enumerate(branches)}
    return parts_of(apply(branch, (index, *given), functions))


def _run_derived(
    index: Any, name: str, bodies: Sequence[Callable[..., list[Any]]], given: Sequence[Any]
) -> list[Any]:
    """Record the branches that a rule made: of one type, but with constants that they reach."""
    samples = [data_of(x) for x in given]
    with np.errstate(all="ignore"):
        branches = [nest(name, body, samples) for body in bodies]
    if any(branch.hoisted for branch in branches):
        return run_branch(index, branches, given)
    return _record(index, branches, given)


def _vjp(
    g: Parts,
    y: Any,
    xs: Sequence[Any],
    wanted: Sequence[bool],
    times: Callable[[Any, Any], Any],
    **branches: Function,
) -> list[Any]:
    index, *operands = xs
    marks = [moves(x) and w for x, w in zip(operands, wanted[1:], strict=True)]
    if asks_of_integers(operands, wanted[1:]):  # those at which something arrives
        values = [data_of(x) for x in operands]
        given = [None if c is None else data_of(c) for c in g]
        reached = [arrives(f, values, wanted[1:], given, times) for f in branches.values()]
        marks = [m or any(arrived) for m, *arrived in zip(marks, *reached, strict=True)]
    seeds = [c for c in g if c is not None]

    def of(function: Function) -> Callable[..., list[Any]]:
        def body(*flat: Any) -> list[Any]:
            values, given = cut(flat, len(operands))
            arrived = iter(given)
            _, pull = pullback_of(function, values, marks)
            cs = pull([None if c is None else next(arrived) for c in g], times)
            moving = [x for x, m in zip(values, marks, strict=True) if m]
            return [like(c, x) for c, x in zip(cs, moving, strict=True)]

        return body

    backs = [of(function) for function in branches.values()]
    cs = _run_derived(index, "back", backs, [*operands, *seeds])
    return [None, *spread(cs, marks)]


def _jvp(
    ts: Sequence[Any],
    y: Any,
    xs: Sequence[Any],
    times: Callable[[Any, Any], Any],
    **branches: Function,
) -> Parts:
    index, *operands = xs
    integers = asks_of_integers(operands, ts[1:])
    duals = [like(t, x) for t, x in zip(ts[1:], operands, strict=True) if moves(x, integers)]
    count = len(branches["branch0"].outputs)
    pushes = [
        pushed(function, (operands,), count, times, integers) for function in branches.values()
    ]
    made = _run_derived(index, "push", pushes, [*operands, *duals])
    marks = [integers or atom.type.dtype.kind in "fc" for atom in branches["branch0"].outputs]
    return Parts(spread(made[count:], marks))


branch = define(
    "branch",
    numpy=[],
    method=None,
    entry=None,
    infer=infer,
    evaluate=evaluate,
    jvp=Joint(_jvp),
    vjp=Joint(_vjp),
    lower=Branch(),
)
