"""The op `branch`: one of several functions of the same arguments, chosen by an index.

Its derivatives are branches on the same index: a branch not taken contributes nothing, even where
its derivative is infinite or NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import compress
from typing import Any

import numpy as np

from tracker.autodiff.reverse import Times
from tracker.control.body import (
    TracedBody,
    as_tangent_of,
    is_active,
    needs_integer_derivatives,
    recorded,
    split_list,
    trace_body,
    trace_with_results,
)
from tracker.control.branch_writes import hoist_writes, with_writes
from tracker.control.carry_types import cast_to, promote_types
from tracker.control.loop import dual_body
from tracker.control.loop_pullback import body_pullback, fill_by_mask, reached_operands
from tracker.ir.graph import Function, Var, name_variables
from tracker.ir.lowering import Branch
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type, type_of
from tracker.ops.declare.bundle import BundleParts, unbundle
from tracker.support.structs import replace
from tracker.tape.plain_replay import plain_replay
from tracker.tape.record import apply, data_of, replay


def infer(index: Type, *operands: Type, **branches: Function) -> Type:
    first = [atom.type for atom in branches["branch0"].outputs]
    for branch in branches.values():
        if list(operands) != [v.type for v in branch.inputs]:
            raise TypeError(f"{branch.name} takes {[str(v.type) for v in branch.inputs]}")
        if [atom.type for atom in branch.outputs] != first:
            raise TypeError(f"{branch.name} gives {[str(atom.type) for atom in branch.outputs]}")
    return Bundle.of(first)


def evaluate(index: Any, *operands: Any, **branches: Function) -> tuple[Any, ...]:
    return tuple(plain_replay(branches[f"branch{int(index)}"])(operands))


def trace_branches(
    index: Any, name: str, bodies: Sequence[Callable[..., list[Any]]], samples: Sequence[Any]
) -> tuple[list[TracedBody], list[Any]]:
    """The branches, and the results of the one that is taken, which alone warns."""
    taken, branches, results = int(data_of(index)), [], list[Any]()
    for at, body in enumerate(bodies):
        with nullcontext() if at == taken else np.errstate(all="ignore"):
            traced, found = trace_with_results(name, body, samples)
        branches.append(traced)
        results = found if at == taken else results
    return branches, results


def record_branch(
    index: Any,
    branches: Sequence[TracedBody],
    operands: Sequence[Any],
    results: Sequence[Any] | None = None,
) -> list[Any]:
    """Record a branch; returns its results, which may be known. All branches get what any of them
    hoisted. What they write into arrays is written after them, where it can be."""
    hoisted = [x for branch in branches for x in branch.hoisted]
    given = (*hoisted, *operands)
    samples = [data_of(x) for x in given]
    functions, before = list[Function](), 0
    for traced in branches:
        functions.append(_with_operands(traced, before, [*map(type_of, samples[: len(hoisted)])]))
        before += len(traced.hoisted)
    functions, writes = hoist_writes(functions)
    types = [
        functools.reduce(promote_types, column)
        for column in zip(*(_result_types(f) for f in functions), strict=True)
    ]
    has_types = [_result_types(f) == types for f in functions]
    params = {
        f"branch{at}": f if has_type else _with_types(f, types, samples)
        for at, (f, has_type) in enumerate(zip(functions, has_types, strict=True))
    }
    if results is None or writes or not all(has_types):
        found = unbundle(apply(branch, (index, *given), params))
    else:
        found = unbundle(recorded(branch, (index, *given), params, tuple(results)))
    return with_writes(found, writes, given)


def _result_types(function: Function) -> list[Type]:
    return [atom.type for atom in function.outputs]


def _with_operands(traced: TracedBody, before: int, types: Sequence[Type]) -> Function:
    """A branch that is given what others have hoisted, too: values of these types, those before its
    own and those after."""
    function, own = traced.function, len(traced.hoisted)
    if own == len(types):
        return function
    first = [*map(Var, types[:before])]
    after = [*map(Var, types[before + own :])]
    inputs = function.inputs
    function = replace(function, inputs=(*first, *inputs[:own], *after, *inputs[own:]))
    name_variables(function)
    return function


def _with_types(function: Function, types: Sequence[Type], samples: Sequence[Any]) -> Function:
    """A branch whose results are cast to these types."""

    def body(*flat: Any) -> list[Any]:
        made = replay(function, flat)
        return [cast_to(x, type) for x, type in zip(made, types, strict=True)]

    with np.errstate(all="ignore"):
        return trace_body("branch", body, samples).function


def _record_derivative(
    index: Any, name: str, bodies: Sequence[Callable[..., list[Any]]], given: Sequence[Any]
) -> list[Any]:
    """Record the branches that a rule made: of one type, possibly with hoisted constants."""
    branches, results = trace_branches(index, name, bodies, [data_of(x) for x in given])
    return record_branch(index, branches, given, results)


def _vjp(
    g: BundleParts,
    y: Any,
    xs: Sequence[Any],
    wanted: Sequence[bool],
    times: Times,
    **branches: Function,
) -> list[Any]:
    index, *operands = xs
    marks = [is_active(x) and w for x, w in zip(operands, wanted[1:], strict=True)]
    if needs_integer_derivatives(operands, wanted[1:]):  # active are those that a cotangent reaches
        values = [data_of(x) for x in operands]
        given = [None if c is None else data_of(c) for c in g]
        reached = [reached_operands(f, values, wanted[1:], given, times) for f in branches.values()]
        marks = [m or any(arrived) for m, *arrived in zip(marks, *reached, strict=True)]
    seeds = [c for c in g if c is not None]

    def of(function: Function) -> Callable[..., list[Any]]:
        def body(*flat: Any) -> list[Any]:
            values, given = split_list(flat, len(operands))
            arrived = iter(given)
            _, pull, _ = body_pullback(function, values, marks)
            cs = pull([None if c is None else next(arrived) for c in g], times)
            moving = list(compress(values, marks))
            return [as_tangent_of(c, x) for c, x in zip(cs, moving, strict=True)]

        return body

    backs = [of(function) for function in branches.values()]
    cs = _record_derivative(index, "back", backs, [*operands, *seeds])
    return [None, *fill_by_mask(cs, marks)]


def _jvp(
    ts: Sequence[Any], y: Any, xs: Sequence[Any], times: Times, **branches: Function
) -> BundleParts:
    index, *operands = xs
    integers = needs_integer_derivatives(operands, ts[1:])
    duals = [
        as_tangent_of(t, x) for t, x in zip(ts[1:], operands, strict=True) if is_active(x, integers)
    ]
    count = len(branches["branch0"].outputs)
    pushes = [
        dual_body(function, (operands,), count, times, integers) for function in branches.values()
    ]
    made = _record_derivative(index, "push", pushes, [*operands, *duals])
    marks = [integers or atom.type.dtype.kind in "fc" for atom in branches["branch0"].outputs]
    return BundleParts(fill_by_mask(made[count:], marks))


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
