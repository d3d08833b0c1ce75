"""Replaying an `ir.Function` on all rows at once.

A value is a pair: its data, and whether its first axis runs over the rows; for a bundle, a list of
such pairs. Guards do not stop a replay: `alive` says which rows take the traced path.
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
from tracker.tape.record import GUARD_CONVERSIONS, ReplayDiverged, apply, aval_of, data_of
from tracker.tape.tracing.tracer import at_origins
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
    """The results, and which of the n rows take the function's path (True: all)."""
    table: dict[Var, BatchedValue] = dict(
        zip(function.inputs, zip(values, marks, strict=True), strict=True)
    )
    alive: Any = True

    def read(atom: Atom) -> BatchedValue:
        return (atom.value, False) if isinstance(atom, Const) else table[atom]

    with at_origins() as tracer:
        for step in function.body:
            if tracer is not None:
                tracer.origin = step.where or None
            if isinstance(step, Guard):
                alive = np.logical_and(alive, _guard_holds(step, *read(step.operand)))
            else:
                table[step.out] = _batched_equation(step, [read(o) for o in step.operands], n)
    return [read(atom) for atom in function.outputs], alive


def _guard_holds(guard: Guard, x: Any, mark: bool) -> Any:
    """The rows for which a guard holds."""
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
    if eqn.op is loop:
        body = eqn.params["body"].body
        if not marks[0] and not any(isinstance(step, Guard) for step in body):
            return _batched_loop(xs, marks, n, **eqn.params), True
        made, mark = apply_row_by_row(eqn.op, xs, marks, eqn.params, n)
    else:
        made, mark = batch_op(eqn.op, xs, marks, eqn.params, n)
    for k, at in _unchanged_results(eqn).items():
        if not marks[at]:
            made[k] = given[at]
    return made, mark


def _unchanged_results(eqn: Eqn) -> dict[int, int]:
    """The results of control flow that are always an operand (by its position): what all branches
    return unchanged, and carries that no step changes."""
    if eqn.op is branch:
        branches = list(eqn.params.values())
        return {
            k: 1 + at
            for k in range(len(branches[0].outputs))
            for at in range(len(branches[0].inputs))
            if all(f.outputs[k] is f.inputs[at] for f in branches)
        }
    if eqn.op is while_:
        first, before = eqn.params["body_consts"], eqn.params["cond_consts"]
    elif eqn.op is loop:
        first, before = eqn.params["consts"], 1  # the count
    else:
        return {}
    body = eqn.params["body"]
    pairs = enumerate(zip(body.inputs[first:], body.outputs, strict=False))
    return {k: before + first + k for k, (given, made) in pairs if made is given}


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
    """One loop for all rows; carries that differ from row to row get a row axis. Repeated until no
    further carry needs one."""
    count, *operands = xs
    fixed, carried, rows = split_list(operands, consts, carries)
    fixed_marks, carried_marks, row_marks = split_list(marks[1:], consts, carries)
    rows = [np.moveaxis(x, 1, 0) if m else x for x, m in zip(rows, row_marks, strict=True)]
    first = max(int(data_of(count)) - 1, 0) if reverse else 0
    while True:
        start = [
            broadcast_rows(x, had, n) if wide else x
            for x, had, wide in zip(carried, marks[1 + consts :], carried_marks, strict=False)
        ]
        out_marks: list[bool] = []
        inner = [*fixed_marks, *carried_marks, *row_marks]

        def step(*flat: Any, inner: list[bool] = inner, out: list[bool] = out_marks) -> list[Any]:
            made, _ = replay_rows(body, flat, inner, n)
            wide = [*inner[consts : consts + carries], *(m for _, m in made[carries:])]
            out[:] = [m for _, m in made]
            return [
                broadcast_rows(x, m, n) if w else x for (x, m), w in zip(made, wide, strict=True)
            ]

        traced = trace_body("rows", step, [*start, *(data_of(x)[first] for x in rows)], fixed)
        new_marks = [a or b for a, b in zip(carried_marks, out_marks, strict=False)]
        if new_marks == carried_marks:
            break
        carried_marks = new_marks
    made = record_loop(traced, count, start, rows, length, reverse, keep)
    ends, stacks = split_list(made, carries)
    stack_marks = [*out_marks[carries:], *(carried_marks[at] for at in keep)]
    return [
        *zip(ends, carried_marks, strict=True),
        *((np.moveaxis(y, 1, 0) if m else y, m) for y, m in zip(stacks, stack_marks, strict=True)),
    ]
