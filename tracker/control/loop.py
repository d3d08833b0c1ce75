"""The op `loop`: a counted loop around a body that was traced once.

Owns: the op (see `ir.op.Loop` for operands, params and results), its rules, and `reverse_loop`,
which `while_` shares. Start at `evaluate`.

The pullback of a loop is a loop that goes the other way (`loop_pullback.py`); the pushforward is a
loop of pairs. A carry that is not kept is one whose numbers no pullback looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.forward import push
from tracker.control.body import asks_of_integers, cut, like, moves, nest
from tracker.control.loop_pullback import Back, Steps, replay_on_leaves, spread
from tracker.control.step_runner import stepper
from tracker.ir.graph import Function
from tracker.ir.lowering import Loop
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type
from tracker.ops.declare.bundle import Parts, parts_of
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
    step = stepper(body)
    for i in reversed(range(count)) if reverse else range(count):
        found = [carried[at] for at in keep]
        out = step([*fixed, *carried, *(row[i] for row in rows)])
        carried = list(out[:carries])
        for stack, y in zip(stacks, [*out[carries:], *found], strict=True):
            stack[i] = y
    return (*carried, *stacks)


# Reverse ------------------------------------------------------------------------------------------


def reverse_loop(steps: Steps, *rest: Any) -> list[Any]:
    """Cotangents of a loop's consts, carries and rows (the arguments are those of `Back`)."""
    back = Back(steps, *rest)
    return back.cotangents(run_loop(**back.loop()))


def run_loop(
    body: Function,
    count: Any,
    consts: Sequence[Any],
    carries: Sequence[Any],
    rows: Sequence[Any],
    length: int,
    reverse: bool,
    keep: tuple[int, ...],
) -> list[Any]:
    """Record a loop; its carries and ys, as parts."""
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
    """Record a loop; all of its results, as parts: carries, ys, and what it keeps."""
    params = {
        "body": body,
        "consts": len(consts),
        "carries": len(carries),
        "length": length,
        "reverse": reverse,
        "keep": keep,
    }
    return parts_of(apply(loop, (count, *consts, *carries, *rows), params))


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
    last, stacks, kept = cut(parts_of(y), carries, len(body.outputs) - carries)
    seeds, stacked, of_kept = cut(g, carries, len(stacks))
    marks = [at in keep for at in range(carries)]
    saved, found = spread(kept, marks), spread(of_kept, marks)
    steps = Steps(body, count, length, fixed, saved, rows, reverse)
    return [None, *reverse_loop(steps, last, seeds, stacked, found, wanted[1:], times)]


# Forward ------------------------------------------------------------------------------------------


def pushed(
    body: Function,
    groups: Sequence[Sequence[Any]],
    outs: int,
    times: Callable[[Any, Any], Any],
    integers: bool,
) -> Callable[..., list[Any]]:
    """The body on pairs: (values, tangents) of each group, to results and tangents.

    The first `outs` results and then the tangents of those that can have one come out: of
    `integers`, too, where some of them move.
    """
    marks = [[moves(x, integers) for x in group] for group in groups]
    sizes = [n for group, m in zip(groups, marks, strict=True) for n in (len(group), sum(m))]

    def step(*flat: Any) -> list[Any]:
        pieces = cut(flat, *sizes)
        values = [x for at in range(0, 2 * len(groups), 2) for x in pieces[at]]
        tangents = iter([t for at in range(0, 2 * len(groups), 2) for t in pieces[at + 1]])
        marked = [m for group in marks for m in group]
        since, leaves, results = replay_on_leaves(body, values, marked)
        pairs = [(leaf, next(tangents)) for leaf in leaves]
        roots = [value_of(r) for r in results if isinstance(r, Tracked)]
        arrived = iter(push(pairs, roots, since, times=times))
        ts = [next(arrived) if isinstance(r, Tracked) else None for r in results]
        of = [like(t, r) for r, t in zip(results, ts, strict=True) if moves(r, integers)]
        carried = sum(moves(r, integers) for r in results[:outs])
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
    integers = asks_of_integers(operands, ts[1:])
    duals = [
        [like(t, x) for x, t in zip(group, gs, strict=True) if moves(x, integers)]
        for group, gs in zip(groups, tangents, strict=True)
    ]
    marks = [moves(x, integers) for x in groups[1]]
    places = spread(range(carries, carries + sum(marks)), marks)
    dual_of = [places[at] for at in keep]
    step = pushed(body, groups, carries, times, integers)
    first = max(int(data_of(count)) - 1, 0) if reverse else 0
    elements = [[data_of(x)[first] for x in group] for group in (groups[2], duals[2])]
    samples = [*groups[0], *duals[0], *groups[1], *duals[1], *elements[0], *elements[1]]
    nested = nest("push", step, samples)
    made = record_loop(
        nested.function,
        count,
        [*nested.hoisted, *groups[0], *duals[0]],
        [*groups[1], *duals[1]],
        [*groups[2], *duals[2]],
        length,
        reverse,
        (*keep, *(n for n in dual_of if n is not None)),
    )
    return paired(made, body, carries, keep, integers)


def paired(
    made: list[Any], body: Function, carries: int, keep: tuple[int, ...], integers: bool
) -> Parts:
    """The tangents among the results of a loop of pairs, in the order of the loop's own results."""
    marks = [integers or atom.type.dtype.kind in "fc" for atom in body.outputs]
    carried, stacked = marks[:carries], marks[carries:]
    _, of_carries, _, of_ys, _, of_kept = cut(
        made, carries, sum(carried), len(stacked), sum(stacked), len(keep)
    )
    kept = spread(of_kept, [carried[at] for at in keep])
    return Parts([*spread(of_carries, carried), *spread(of_ys, stacked), *kept])


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
