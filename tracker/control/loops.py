"""The op `loop`: a counted loop around a body that was traced once.

Owns: the op (see `ir.op.Loop` for operands, params and results), its rules, and `reverse_loop`,
which `while_` shares. Start at `evaluate`.

The pullback of a loop is a loop that goes the other way: each step takes the carries that the
step found (`keep`), runs the body again and pulls the cotangents back through it. What all
steps used (`consts`) collects its cotangent as it goes. The pushforward is a loop of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracker.control.nested import as_input, cut, like, moves, nest, stand_in
from tracker.forward import push
from tracker.ir.graph import Function
from tracker.ir.op import Joint, Loop, define
from tracker.ir.types import Bundle, Type
from tracker.ops.bundle import Parts, parts_of
from tracker.replay import replay
from tracker.reverse import sweep
from tracker.tape import Value, apply, close, data_of, new_epoch, value_of, wrap
from tracker.tracked import Tracked
from tracker.wrapping import entry


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
    fixed, carried, rows = cut(operands, consts, carries)
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
    fixed, carried, rows = cut(operands, consts, carries)
    types = [body.outputs[carries + i].type for i in range(len(body.outputs) - carries)]
    types += [body.outputs[i].type for i in keep]
    stacks = [np.zeros((length, *t.shape), t.dtype) for t in types]
    for i in reversed(range(count)) if reverse else range(count):
        found = [carried[at] for at in keep]
        out = replay(body, [*fixed, *carried, *(row[i] for row in rows)])
        carried = out[:carries]
        for stack, y in zip(stacks, [*out[carries:], *found], strict=True):
            stack[i] = y
    return (*carried, *stacks)


# Reverse ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Steps:
    """A loop that has run: what its steps used, and the carries that each of them found."""

    body: Function
    count: Any
    length: int
    consts: list[Any]
    saved: list[Any]
    rows: list[Any]
    reverse: bool


def reverse_loop(
    steps: Steps,
    last: list[Any],
    seeds: list[Any],
    stacked: list[Any],
    found: list[Any],
    wanted: Sequence[bool],
    times: Callable[[Any, Any], Any],
) -> list[Any]:
    """Cotangents of consts, carries and rows.

    last      the carries after the last step
    seeds     the cotangents of `last`, None for zero
    stacked   the cotangents of what the steps gave, None for zero
    found     the cotangents of `saved`, None for zero
    wanted    per const and row, whether anybody asks
    """
    consts, rows = steps.consts, steps.rows
    moving_consts = [moves(x) and w for x, w in zip(consts, wanted, strict=False)]
    moving_rows = [moves(x) and w for x, w in zip(rows, wanted[len(consts) :], strict=True)]
    moving = [moves(x) for x in last]
    start = [like(g, x) for x, g, m in zip(last, seeds, moving, strict=True) if m]
    sums = [like(None, x) for x, m in zip(consts, moving_consts, strict=True) if m]
    given = [g for g in (*stacked, *found) if g is not None]
    counts = (len(consts), len(start), len(sums), len(last), len(rows))

    def step(*flat: Any) -> list[Any]:
        fixed, cts, totals, saved, elements, gs = cut(flat, *counts)
        at = [v.type for v in steps.body.inputs[len(consts) :]]
        saved = [as_input(x, type) for x, type in zip(saved, at, strict=False)]
        arrived = iter(gs)
        of_ys = [None if g is None else next(arrived) for g in stacked]
        of_saved = [None if g is None else next(arrived) for g in found]
        marks = [*moving_consts, *moving, *moving_rows]
        leaves, pull = pullback_of(steps.body, [*fixed, *saved, *elements], marks)
        sent = iter(cts)
        out_seeds = [next(sent) if m else None for m in moving]
        cs = pull([*out_seeds, *of_ys], times)
        of_consts, of_carries, of_rows = cut(cs, len(sums), len(start))
        leaf_of = cut(leaves, len(sums), len(start))
        more = [g for g, m in zip(of_saved, moving, strict=True) if m]
        new_cts = [
            entry(c if g is None else g if c is None else c + g, leaf)
            for c, g, leaf in zip(of_carries, more, leaf_of[1], strict=True)
        ]
        new_sums = [
            total if c is None else entry(total + c, leaf)
            for c, total, leaf in zip(of_consts, totals, leaf_of[0], strict=True)
        ]
        ys = [entry(c, leaf) for c, leaf in zip(of_rows, leaf_of[2], strict=True)]
        return [*new_cts, *new_sums, *ys]

    first = 0 if steps.reverse else max(int(data_of(steps.count)) - 1, 0)
    per_step = [*steps.saved, *rows, *given]
    samples = [*consts, *start, *sums, *(data_of(x)[first] for x in per_step)]
    nested = nest("back", step, samples)
    carries = len(start) + len(sums)
    made = run_loop(
        nested.function,
        steps.count,
        [*nested.hoisted, *consts],
        [*start, *sums],
        per_step,
        steps.length,
        not steps.reverse,
    )
    of_carries, of_consts, rest = cut(made, len(start), len(sums))
    of_rows = rest[: len(made) - carries]
    return [
        *spread(of_consts, moving_consts),
        *spread(of_carries, moving),
        *spread(of_rows, moving_rows),
    ]


def spread(found: Sequence[Any], marks: Sequence[bool]) -> list[Any]:
    arrived = iter(found)
    return [next(arrived) if mark else None for mark in marks]


def pullback_of(
    body: Function, values: list[Any], marks: Sequence[bool]
) -> tuple[list[Value], Callable[..., list[Any]]]:
    """Leaves for the marked values of a body, and the pullback of its results to them."""
    since = new_epoch()
    leaves = [stand_in(x) for x, mark in zip(values, marks, strict=True) if mark]
    given = iter(leaves)
    outs = replay(body, [wrap(next(given)) if m else x for x, m in zip(values, marks, strict=True)])
    for leaf in leaves:
        close(leaf)

    def pull(seeds: Sequence[Any], times: Callable[[Any, Any], Any]) -> list[Any]:
        roots = [
            (value_of(out), g)
            for out, g in zip(outs, seeds, strict=True)
            if g is not None and isinstance(out, Tracked)
        ]
        return sweep(roots, leaves, since, times=times)

    return leaves, pull


def run_loop(
    body: Function,
    count: Any,
    consts: Sequence[Any],
    carries: Sequence[Any],
    rows: Sequence[Any],
    length: int,
    reverse: bool,
) -> list[Any]:
    """Record a loop that keeps all of its carries; carries and ys, as parts."""
    params = {
        "body": body,
        "consts": len(consts),
        "carries": len(carries),
        "length": length,
        "reverse": reverse,
        "keep": tuple(range(len(carries))),
    }
    bundle = apply(loop, (count, *consts, *carries, *rows), params)
    return parts_of(bundle)[: len(body.outputs)]


def _vjp(
    g: Parts,
    y: Any,
    xs: Sequence[Any],
    wanted: Sequence[bool],
    times: Callable[[Any, Any], Any],
    *,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> list[Any]:
    count, *operands = xs
    fixed, _, rows = cut(operands, consts, carries)
    last, stacks, saved = cut(parts_of(y), carries, len(body.outputs) - carries)
    seeds, stacked, found = cut(g, carries, len(stacks))
    steps = Steps(body, count, length, fixed, saved, rows, reverse)
    asked = [*wanted[1 : 1 + consts], *wanted[1 + consts + carries :]]
    return [None, *reverse_loop(steps, last, seeds, stacked, found, asked, times)]


# Forward ------------------------------------------------------------------------------------------


def pushed(
    body: Function, groups: Sequence[Sequence[Any]], outs: int, times: Callable[[Any, Any], Any]
) -> Callable[..., list[Any]]:
    """The body on pairs: (values, tangents) of each group, to results and tangents.

    The first `outs` results and then the tangents of those that can have one come out.
    """
    marks = [[moves(x) for x in group] for group in groups]
    sizes = [n for group, m in zip(groups, marks, strict=True) for n in (len(group), sum(m))]

    def step(*flat: Any) -> list[Any]:
        pieces = cut(flat, *sizes)
        values = [x for at in range(0, 2 * len(groups), 2) for x in pieces[at]]
        tangents = iter([t for at in range(0, 2 * len(groups), 2) for t in pieces[at + 1]])
        marked = [m for group in marks for m in group]
        since = new_epoch()
        leaves = [stand_in(x) for x, m in zip(values, marked, strict=True) if m]
        given = iter(leaves)
        results = replay(
            body, [wrap(next(given)) if m else x for x, m in zip(values, marked, strict=True)]
        )
        for leaf in leaves:
            close(leaf)
        pairs = [(leaf, next(tangents)) for leaf in leaves]
        roots = [value_of(r) for r in results if isinstance(r, Tracked)]
        arrived = iter(push(pairs, roots, since, times=times))
        ts = [next(arrived) if isinstance(r, Tracked) else None for r in results]
        of = [like(t, r) for r, t in zip(results, ts, strict=True) if moves(r)]
        carried = sum(moves(r) for r in results[:outs])
        return [*results[:outs], *of[:carried], *results[outs:], *of[carried:]]

    return step


def _jvp(
    ts: Sequence[Any],
    y: Any,
    xs: Sequence[Any],
    times: Callable[[Any, Any], Any],
    *,
    body: Function,
    consts: int,
    carries: int,
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> Parts:
    count, *operands = xs
    groups = cut(operands, consts, carries)
    tangents = cut(ts[1:], consts, carries)
    duals = [
        [like(t, x) for x, t in zip(group, gs, strict=True) if moves(x)]
        for group, gs in zip(groups, tangents, strict=True)
    ]
    step = pushed(body, groups, carries, times)
    first = max(int(data_of(count)) - 1, 0) if reverse else 0
    elements = [[data_of(x)[first] for x in group] for group in (groups[2], duals[2])]
    samples = [*groups[0], *duals[0], *groups[1], *duals[1], *elements[0], *elements[1]]
    nested = nest("push", step, samples)
    made = apply(
        loop,
        (
            count,
            *nested.hoisted,
            *groups[0],
            *duals[0],
            *groups[1],
            *duals[1],
            *groups[2],
            *duals[2],
        ),
        {
            "body": nested.function,
            "consts": len(nested.hoisted) + len(groups[0]) + len(duals[0]),
            "carries": len(groups[1]) + len(duals[1]),
            "length": length,
            "reverse": reverse,
            "keep": tuple(range(len(groups[1]) + len(duals[1]))),
        },
    )
    return paired(made, body, carries, keep)


def paired(made: Any, body: Function, carries: int, keep: tuple[int, ...]) -> Parts:
    """The tangents among the results of a loop of pairs, in the order of the loop's own results."""
    marks = [atom.type.dtype.kind in "fc" for atom in body.outputs]
    carried, stacked = marks[:carries], marks[carries:]
    _, of_carries, _, of_ys, _, of_kept = cut(
        parts_of(made), carries, sum(carried), len(stacked), sum(stacked), carries
    )
    kept = spread(of_kept, carried)
    return Parts(
        [*spread(of_carries, carried), *spread(of_ys, stacked), *(kept[at] for at in keep)]
    )


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
