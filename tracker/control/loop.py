"""The op `loop`: a counted loop around a traced body (operands and results: `ir.lowering.Loop`).

Its pullback is a loop in the other direction (`loop_pullback.py`), its pushforward a loop over
values and tangents. `keep` names the carries that are stacked for the pullback; for others, outputs
give what each step overwrites (`undo_log.py`), or the parts that the pullback reads, if it does
(`pullback_reads.py`). Start at `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracker.autodiff.forward import forward_sweep
from tracker.autodiff.reverse import Times
from tracker.control.body import (
    TracedBody,
    as_tangent_of,
    is_active,
    needs_integer_derivatives,
    split_list,
    trace_body,
)
from tracker.control.loop_pullback import (
    LoopRun,
    ReverseLoop,
    Undone,
    fill_by_mask,
    replay_on_leaves,
)
from tracker.control.pullback_reads import carries_read_by_pullback, parts_read, with_parts_read
from tracker.control.step_runner import make_stepper, run_natively
from tracker.control.undo_log import WriteFinder, with_overwritten
from tracker.ir.graph import Function
from tracker.ir.lowering import Loop
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type
from tracker.jit.tracing import calls_unmonitored
from tracker.ops.declare.bundle import BundleParts, unbundle
from tracker.support.structs import record
from tracker.tape.record import apply, data_of, value_of
from tracker.tape.tracing.tracer import current_tracer, note_trip_count
from tracker.tape.tracked import Tracked


@record(frozen=True)
class LoopParams:
    """The params of a `loop`; see `ir.lowering.Loop`."""

    body: Function
    consts: int
    carries: int
    length: int
    reverse: bool
    keep: tuple[int, ...]


def infer(count: Type, *operands: Type, **params: Any) -> Type:
    p = LoopParams(**params)
    fixed, carried, rows = split_list(operands, p.consts, p.carries)
    elements = [Type(row.shape[1:], row.dtype) for row in rows]
    if [*fixed, *carried, *elements] != [v.type for v in p.body.inputs]:
        raise TypeError(f"the body takes {[str(v.type) for v in p.body.inputs]}")
    if carried != [atom.type for atom in p.body.outputs[: p.carries]]:
        raise TypeError(f"the body gives {[str(atom.type) for atom in p.body.outputs]}")
    stacked = [atom.type for atom in p.body.outputs[p.carries :]] + [carried[i] for i in p.keep]
    return Bundle.of([*carried, *(Type((p.length, *t.shape), t.dtype) for t in stacked)])


def evaluate(count: Any, *operands: Any, **params: Any) -> tuple[Any, ...]:
    p = LoopParams(**params)
    fixed, carried, rows = split_list(operands, p.consts, p.carries)
    note_trip_count(p.body, int(count))
    with _unmonitored(p.body):
        native = run_natively(loop, (p.body,), (count, *operands), params, int(count))
        if native is not None:
            return native
        types = [atom.type for atom in p.body.outputs[p.carries :]]
        types += [p.body.outputs[i].type for i in p.keep]
        stacks = [np.zeros((p.length, *t.shape), t.dtype) for t in types]
        step = make_stepper(p.body)
        for i in reversed(range(count)) if p.reverse else range(count):
            found = [carried[at] for at in p.keep]
            out = step([*fixed, *carried, *(row[i] for row in rows)])
            carried = list(out[: p.carries])
            for stack, y in zip(stacks, [*out[p.carries :], *found], strict=True):
                stack[i] = y
    return (*carried, *stacks)


def _unmonitored(body: Function) -> AbstractContextManager[None]:
    """A context to run a body in, and its derivatives: most call nothing of the user's."""
    return nullcontext() if body.calls_python else calls_unmonitored()


def record_loop(
    body: TracedBody,
    count: Any,
    carries: Sequence[Any],
    rows: Sequence[Any],
    length: int,
    reverse: bool,
    keep: tuple[int, ...] = (),
) -> list[Any]:
    """Record a loop, which also saves what its pullback reads; returns carries, ys, and the stacks
    of the carries in `keep`."""
    sizes = len(body.hoisted), len(carries)
    read = carries_read_by_pullback(body.function, *sizes)
    written = range(len(carries)) if _is_in_loop() else read
    saving, undone = with_overwritten(body.function, *sizes, written)
    others = [at for at in read if at not in keep and at not in undone]
    saving, in_parts = with_parts_read(saving, len(body.hoisted), others, length)
    params = {
        "body": saving,
        "consts": len(body.hoisted),
        "carries": len(carries),
        "length": length,
        "reverse": reverse,
        "keep": (*keep, *(at for at in others if at not in in_parts)),
    }
    made = unbundle(apply(loop, (count, *body.hoisted, *carries, *rows), params))
    after = len(saving.outputs)
    return [*made[: len(body.types)], *made[after : after + len(keep)]]


def _is_in_loop() -> bool:
    """Whether a loop around this one is being traced, whose pullback may have to undo writes that
    this loop's pullback does not read."""
    tracer = current_tracer()
    return tracer is not None and bool(tracer.since or tracer.iterations)


# Reverse ------------------------------------------------------------------------------------------


def record_reverse_loop(run: LoopRun, *args: Any) -> list[Any]:
    """Cotangents of a loop's consts, carries and rows; the arguments are those of `ReverseLoop`."""
    return ReverseLoop(run, record_loop, *args).cotangents()


def _vjp(
    g: BundleParts, y: Any, xs: Sequence[Any], wanted: Sequence[bool], times: Times, **params: Any
) -> list[Any]:
    p = LoopParams(**params)
    count, *operands = xs
    fixed, _, rows = split_list(operands, p.consts, p.carries)
    last, stacks, kept = split_list(unbundle(y), p.carries, len(p.body.outputs) - p.carries)
    seeds, stacked, of_kept = split_list(g, p.carries, len(stacks))
    marks = [at in p.keep for at in range(p.carries)]
    saved, found = fill_by_mask(kept, marks), fill_by_mask(of_kept, marks)
    undone, parts = dict[int, Undone](), list[int]()
    finder = WriteFinder(p.body, p.consts, p.carries)
    for at in carries_read_by_pullback(p.body, p.consts, p.carries):
        if at in p.keep:
            continue
        writes = finder.writes(at)
        if writes is not None:
            undone[at] = Undone(operands[p.consts + at], last[at], writes)
        else:
            parts += parts_read(p.body, p.consts, p.carries, at)
    run = LoopRun(p.body, count, p.length, fixed, saved, undone, parts, rows, stacks, p.reverse)
    with _unmonitored(p.body):
        return [None, *record_reverse_loop(run, last, seeds, stacked, found, wanted[1:], times)]


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
        parts = split_list(flat, *sizes)
        values = [x for part in parts[:-1:2] for x in part]
        tangents = [t for part in parts[1::2] for t in part]
        mask = [m for group in marks for m in group]
        epoch, leaves, results = replay_on_leaves(body, values, mask)
        roots = [value_of(r) for r in results if isinstance(r, Tracked)]
        pairs = list(zip(leaves, tangents, strict=True))
        arrived = iter(forward_sweep(pairs, roots, epoch, times=times))
        ts = [next(arrived) if isinstance(r, Tracked) else None for r in results]
        active = [is_active(r, include_integers) for r in results]
        of = [as_tangent_of(t, r) for r, t, a in zip(results, ts, active, strict=True) if a]
        carried = sum(active[:outs])
        return [*results[:outs], *of[:carried], *results[outs:], *of[carried:]]

    return step


def _jvp(ts: Sequence[Any], y: Any, xs: Sequence[Any], times: Times, **params: Any) -> BundleParts:
    p = LoopParams(**params)
    count, *operands = xs
    consts, carries, rows = split_list(operands, p.consts, p.carries)
    integers = needs_integer_derivatives(operands, ts[1:])
    t_consts, t_carries, t_rows = (
        [as_tangent_of(t, x) for x, t in zip(group, gs, strict=True) if is_active(x, integers)]
        for group, gs in zip(
            (consts, carries, rows), split_list(ts[1:], p.consts, p.carries), strict=True
        )
    )
    marks = [integers or atom.type.dtype.kind in "fc" for atom in p.body.outputs]
    active, active_ys = marks[: p.carries], marks[p.carries :]
    tangent_at = fill_by_mask(range(p.carries, p.carries + sum(active)), active)
    first = max(int(data_of(count)) - 1, 0) if p.reverse else 0
    elements = [data_of(x)[first] for x in (*rows, *t_rows)]
    traced = trace_body(
        "push",
        dual_body(p.body, (consts, carries, rows), p.carries, times, integers),
        [*carries, *t_carries, *elements],
        [*consts, *t_consts],
    )
    made = record_loop(
        traced,
        count,
        [*carries, *t_carries],
        [*rows, *t_rows],
        p.length,
        p.reverse,
        (*p.keep, *(tangent_at[at] for at in p.keep if active[at])),
    )
    _, of_carries, _, of_ys, _, of_kept = split_list(
        made, p.carries, sum(active), len(active_ys), sum(active_ys), len(p.keep)
    )
    kept = fill_by_mask(of_kept, [active[at] for at in p.keep])
    return BundleParts([*fill_by_mask(of_carries, active), *fill_by_mask(of_ys, active_ys), *kept])


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
