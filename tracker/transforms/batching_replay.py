"""Running an `ir.Function` on all rows at once.

Owns: `replay_rows`. A value is (what it is, whether the rows are its first axis); of a bundle, a
list of such pairs. Guards do not stop a replay: `alive` says which rows keep to this path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracker.control.body import split_list, trace_body
from tracker.control.branch import branch
from tracker.control.loop import loop, record_loop
from tracker.control.while_loop import while_
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ops.declare.bundle import pick
from tracker.tape.record import apply, aval_of, data_of
from tracker.tape.replay import GUARD_CONVERSIONS, ReplayDiverged
from tracker.transforms.batching_rules import (
    BatchedValue,
    apply_row_by_row,
    batch_op,
    broadcast_rows,
)

_ROUNDING = {"int": np.trunc, "floor": np.floor, "ceil": np.ceil, "round": np.rint}


def replay_rows(
    function: Function, values: Sequence[Any], marks: Sequence[bool], n: int
) -> tuple[list[BatchedValue], Any]:
    """The results, and which of the n rows keep to the function's path (True: all of them)."""
    table: dict[Var, BatchedValue] = dict(
        zip(function.inputs, zip(values, marks, strict=True), strict=True)
    )
    alive: Any = True

    def read(atom: Atom) -> BatchedValue:
        return (atom.value, False) if isinstance(atom, Const) else table[atom]

    for step in function.body:
        if isinstance(step, Guard):
            alive = np.logical_and(alive, _guard_holds(step, *read(step.operand)))
        else:
            table[step.out] = _batched_equation(step, [read(o) for o in step.operands], n)
    return [read(atom) for atom in function.outputs], alive


def _guard_holds(guard: Guard, x: Any, mark: bool) -> Any:
    """For which rows a guard holds."""
    if not mark:
        if GUARD_CONVERSIONS[guard.kind](x) != guard.expected:
            raise ReplayDiverged(guard)
        return True
    if guard.kind == "bool":
        x = np.not_equal(x, 0)
    elif guard.kind in _ROUNDING and np.result_type(aval_of(x)).kind == "f":
        x = _ROUNDING[guard.kind](x)
    return np.equal(x, guard.expected)


def _batched_equation(eqn: Eqn, given: list[BatchedValue], n: int) -> BatchedValue:
    if eqn.op is pick and isinstance(given[0][0], list):
        part: BatchedValue = given[0][0][eqn.params["at"]]
        return part
    xs, marks = [x for x, _ in given], [mark for _, mark in given]
    if not any(marks):
        return apply(eqn.op, tuple(xs), eqn.params), False
    if eqn.op is loop and not marks[0] and not _has_guards(eqn.params["body"]):
        return _batched_loop(xs, marks, n, **eqn.params), True
    if eqn.op is loop:
        made, mark = apply_row_by_row(eqn.op, xs, marks, eqn.params, n)
    else:
        made, mark = batch_op(eqn.op, xs, marks, eqn.params, n)
    for k, at in _unchanged_results(eqn).items():
        if not marks[at]:
            made[k] = given[at]
    return made, mark


def _unchanged_results(eqn: Eqn) -> dict[int, int]:
    """Results that are an operand, whatever happens: what all branches give back, and the carries
    that no step changes. By the operand's number."""
    if eqn.op is branch:
        ways = list(eqn.params.values())
        return {
            k: 1 + at
            for k in range(len(ways[0].outputs))
            for at in range(len(ways[0].inputs))
            if all(way.outputs[k] is way.inputs[at] for way in ways)
        }
    if eqn.op is while_:
        first, before = eqn.params["body_consts"], eqn.params["cond_consts"]
    elif eqn.op is loop:
        first, before = eqn.params["consts"], 1  # how often
    else:
        return {}
    body = eqn.params["body"]
    pairs = enumerate(zip(body.inputs[first:], body.outputs, strict=False))
    return {k: before + first + k for k, (given, made) in pairs if made is given}


def _has_guards(function: Function) -> bool:
    return any(isinstance(step, Guard) for step in function.body)


def _batched_loop(
    xs: list[Any],
    marks: list[bool],
    n: int,
    *,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> list[BatchedValue]:
    """All rows go through a loop together: one loop, whose carries that differ have a row axis."""
    count, *operands = xs
    fixed, carried, rows = split_list(operands, consts, carries)
    of_fixed, of_carried, of_rows = split_list(marks[1:], consts, carries)
    rows = [np.moveaxis(x, 1, 0) if m else x for x, m in zip(rows, of_rows, strict=True)]
    first = max(int(data_of(count)) - 1, 0) if reverse else 0
    while True:
        start = [
            broadcast_rows(x, had, n) if wide else x
            for x, had, wide in zip(carried, marks[1 + consts :], of_carried, strict=False)
        ]
        out_marks: list[bool] = []
        inner = [*of_fixed, *of_carried, *of_rows]

        def step(*flat: Any, inner: list[bool] = inner, out: list[bool] = out_marks) -> list[Any]:
            made, _ = replay_rows(body, flat, inner, n)
            wide = [*inner[consts : consts + carries], *(m for _, m in made[carries:])]
            out[:] = [m for _, m in made]
            return [
                broadcast_rows(x, m, n) if w else x for (x, m), w in zip(made, wide, strict=True)
            ]

        nested = trace_body("rows", step, [*fixed, *start, *(data_of(x)[first] for x in rows)])
        grown = [a or b for a, b in zip(of_carried, out_marks, strict=False)]
        if grown == of_carried:
            break
        of_carried = grown
    made = record_loop(
        nested.function, count, [*nested.hoisted, *fixed], start, rows, length, reverse, keep
    )
    ends, stacks = split_list(made, carries)
    of_stacks = [*out_marks[carries:], *(of_carried[at] for at in keep)]
    return [
        *zip(ends, of_carried, strict=True),
        *((np.moveaxis(y, 1, 0) if m else y, m) for y, m in zip(stacks, of_stacks, strict=True)),
    ]
