"""The op `loop`: a counted loop around a traced body (operands and results: `ir.lowering.Loop`).

Its pullback is a loop in the other direction (`loop_pullback.py`), its pushforward a loop over
values and tangents. `keep` names the carries that are stacked for the pullback; the pullback does
not read the numbers of the others. Start at `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.forward import forward_sweep
from tracker.autodiff.reverse import Times
from tracker.control.body import (
    as_tangent_of,
    is_active,
    needs_integer_derivatives,
    split_list,
    trace_body,
)
from tracker.control.loop_pullback import LoopRun, ReverseLoop, fill_by_mask, replay_on_leaves
from tracker.control.step_runner import make_stepper
from tracker.ir.graph import Function
from tracker.ir.lowering import Loop
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type
from tracker.ops.declare.bundle import BundleParts, unbundle
from tracker.tape.record import apply, data_of, value_of
from tracker.tape.tracked import Tracked


def infer(
    count: Type,
    *operands: Type,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> Type:
    fixed, carried, rows = split_list(operands, consts, carries)
    elements = [Type(row.shape[1:], row.dtype) for row in rows]
    if [*fixed, *carried, *elements] != [v.type for v in body.inputs]:
        raise TypeError(f"the body takes {[str(v.type) for v in body.inputs]}")
    if carried != [atom.type for atom in body.outputs[:carries]]:
        raise TypeError(f"the body gives {[str(atom.type) for atom in body.outputs]}")
    stacked = [atom.type for atom in body.outputs[carries:]] + [carried[i] for i in keep]
    return Bundle.of([*carried, *(Type((length, *t.shape), t.dtype) for t in stacked)])


def evaluate(
    count: Any,
    *operands: Any,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> tuple[Any, ...]:
    fixed, carried, rows = split_list(operands, consts, carries)
    types = [body.outputs[carries + i].type for i in range(len(body.outputs) - carries)]
    types += [body.outputs[i].type for i in keep]
    stacks = [np.zeros((length, *t.shape), t.dtype) for t in types]
    step = make_stepper(body)
    for i in reversed(range(count)) if reverse else range(count):
        found = [carried[at] for at in keep]
        out = step([*fixed, *carried, *(row[i] for row in rows)])
        carried = list(out[:carries])
        for stack, y in zip(stacks, [*out[carries:], *found], strict=True):
            stack[i] = y
    return (*carried, *stacks)


# Reverse ------------------------------------------------------------------------------------------


def record_reverse_loop(steps: LoopRun, *rest: Any) -> list[Any]:
    """Cotangents of a loop's consts, carries and rows (arguments as of `ReverseLoop`)."""
    back = ReverseLoop(steps, *rest)
    return back.cotangents(record_loop_outputs(**back.arguments()))


def record_loop_outputs(
    body: Function,
    count: Any,
    consts: Sequence[Any],
    carries: Sequence[Any],
    rows: Sequence[Any],
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> list[Any]:
    """Record a loop; returns its carries and ys."""
    made = record_loop(body, count, consts, carries, rows, length, reverse, keep)
    return made[: len(body.outputs)]


def record_loop(
    body: Function,
    count: Any,
    consts: Sequence[Any],
    carries: Sequence[Any],
    rows: Sequence[Any],
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> list[Any]:
    """Record a loop; returns all of its results: carries, ys, kept stacks."""
    params = {
        "body": body,
        "consts": len(consts),
        "carries": len(carries),
        "length": length,
        "reverse": reverse,
        "keep": keep,
    }
    return unbundle(apply(loop, (count, *consts, *carries, *rows), params))


def _vjp(
    g: BundleParts,
    y: Any,
    xs: Sequence[Any],
    wanted: Sequence[bool],
    times: Times,
    *,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> list[Any]:
    count, *operands = xs
    fixed, _, rows = split_list(operands, consts, carries)
    last, stacks, kept = split_list(unbundle(y), carries, len(body.outputs) - carries)
    seeds, stacked, of_kept = split_list(g, carries, len(stacks))
    marks = [at in keep for at in range(carries)]
    saved, found = fill_by_mask(kept, marks), fill_by_mask(of_kept, marks)
    steps = LoopRun(body, count, length, fixed, saved, rows, reverse)
    return [None, *record_reverse_loop(steps, last, seeds, stacked, found, wanted[1:], times)]


# Forward ------------------------------------------------------------------------------------------


def dual_body(
    body: Function, groups: Sequence[Sequence[Any]], outs: int, times: Times, include_integers: bool
) -> Callable[..., list[Any]]:
    """The body on dual numbers: each group of inputs becomes its values, then their tangents.

    Results: the first `outs` results, their tangents, the other results, their tangents; tangents
    only of results that have a derivative (integers only if included).
    """
    marks = [[is_active(x, include_integers) for x in group] for group in groups]
    sizes = [n for group, m in zip(groups, marks, strict=True) for n in (len(group), sum(m))]

    def step(*flat: Any) -> list[Any]:
        pieces = split_list(flat, *sizes)
        values = [x for at in range(0, 2 * len(groups), 2) for x in pieces[at]]
        tangents = iter([t for at in range(0, 2 * len(groups), 2) for t in pieces[at + 1]])
        marked = [m for group in marks for m in group]
        since, leaves, results = replay_on_leaves(body, values, marked)
        pairs = [(leaf, next(tangents)) for leaf in leaves]
        roots = [value_of(r) for r in results if isinstance(r, Tracked)]
        arrived = iter(forward_sweep(pairs, roots, since, times=times))
        ts = [next(arrived) if isinstance(r, Tracked) else None for r in results]
        of = [
            as_tangent_of(t, r)
            for r, t in zip(results, ts, strict=True)
            if is_active(r, include_integers)
        ]
        carried = sum(is_active(r, include_integers) for r in results[:outs])
        return [*results[:outs], *of[:carried], *results[outs:], *of[carried:]]

    return step


def _jvp(
    ts: Sequence[Any],
    y: Any,
    xs: Sequence[Any],
    times: Times,
    *,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> BundleParts:
    count, *operands = xs
    groups = split_list(operands, consts, carries)
    tangents = split_list(ts[1:], consts, carries)
    integers = needs_integer_derivatives(operands, ts[1:])
    duals = [
        [as_tangent_of(t, x) for x, t in zip(group, gs, strict=True) if is_active(x, integers)]
        for group, gs in zip(groups, tangents, strict=True)
    ]
    marks = [is_active(x, integers) for x in groups[1]]
    places = fill_by_mask(range(carries, carries + sum(marks)), marks)
    dual_of = [places[at] for at in keep]
    step = dual_body(body, groups, carries, times, integers)
    first = max(int(data_of(count)) - 1, 0) if reverse else 0
    elements = [[data_of(x)[first] for x in group] for group in (groups[2], duals[2])]
    samples = [*groups[0], *duals[0], *groups[1], *duals[1], *elements[0], *elements[1]]
    traced = trace_body("push", step, samples)
    made = record_loop(
        traced.function,
        count,
        [*traced.hoisted, *groups[0], *duals[0]],
        [*groups[1], *duals[1]],
        [*groups[2], *duals[2]],
        length,
        reverse,
        (*keep, *(n for n in dual_of if n is not None)),
    )
    return tangents_of_results(made, body, carries, keep, integers)


def tangents_of_results(
    made: list[Any], body: Function, carries: int, keep: tuple[int, ...], include_integers: bool
) -> BundleParts:
    """The tangents among the results of a dual loop, in the order of the loop's own results."""
    marks = [include_integers or atom.type.dtype.kind in "fc" for atom in body.outputs]
    carried, stacked = marks[:carries], marks[carries:]
    _, of_carries, _, of_ys, _, of_kept = split_list(
        made, carries, sum(carried), len(stacked), sum(stacked), len(keep)
    )
    kept = fill_by_mask(of_kept, [carried[at] for at in keep])
    return BundleParts([*fill_by_mask(of_carries, carried), *fill_by_mask(of_ys, stacked), *kept])


loop = define(
    "loop",
    numpy=[],
    method=None,
    entry=None,
    infer=infer,
    evaluate=evaluate,
    jvp=Joint(_jvp),
    vjp=Joint(_vjp),
    lower=Loop(),
)
