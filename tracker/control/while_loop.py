"""The op `while_`: a loop of which nobody knows how long it is until it has run.

Owns: the op (see `ir.op.While`), its rules, and `run_while`. The pullback is a counted loop back
over the kept carries; the pushforward is a while of pairs, whose condition looks at the values.

How long the kept stacks are is part of the op (`capacity`): generous, so that what the trace saw
and a good deal more fits. A compiled loop that outgrows its stacks leaves them as at a failing
guard, and is traced again with longer ones: there is no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.control.body import Nested, asks_of_integers, cut, like, moves, nest
from tracker.control.loop import pushed, reverse_loop
from tracker.control.loop_pullback import Steps, spread
from tracker.control.step_runner import stepper
from tracker.ir.graph import Function
from tracker.ir.lowering import While
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type
from tracker.ops.declare.bundle import Parts, parts_of
from tracker.tape.record import apply, data_of
from tracker.tape.replay import PathLeft, replay

_ROOMY = 1 << 20  # bytes of kept carries that are set aside in any case
_STEPS = 1 << 16  # but no more steps than this, unless they were seen


def infer(
    *operands: Type,
    cond: Function,
    body: Function,
    cond_consts: int,
    body_consts: int,
    capacity: int,
    keep: tuple[int, ...],
) -> Type:
    of_cond, of_body, carried = cut(operands, cond_consts, body_consts)
    if [*of_cond, *carried] != [v.type for v in cond.inputs]:
        raise TypeError(f"the condition takes {[str(v.type) for v in cond.inputs]}")
    if [*of_body, *carried] != [v.type for v in body.inputs]:
        raise TypeError(f"the body takes {[str(v.type) for v in body.inputs]}")
    if carried != [atom.type for atom in body.outputs]:
        raise TypeError(f"the body gives {[str(atom.type) for atom in body.outputs]}")
    kept = (Type((capacity, *carried[i].shape), carried[i].dtype) for i in keep)
    return Bundle.of([*carried, Type((), np.dtype(np.int64)), *kept])


def evaluate(
    *operands: Any,
    cond: Function,
    body: Function,
    cond_consts: int,
    body_consts: int,
    capacity: int,
    keep: tuple[int, ...],
) -> tuple[Any, ...]:
    of_cond, of_body, carried = cut(operands, cond_consts, body_consts)
    types = [body.outputs[i].type for i in keep]
    stacks = [np.zeros((capacity, *t.shape), t.dtype) for t in types]
    count = 0
    holds, step = stepper(cond), stepper(body)
    while holds([*of_cond, *carried])[0]:
        if keep and count == capacity:
            raise PathLeft
        for stack, at in zip(stacks, keep, strict=True):
            stack[count] = carried[at]
        carried = list(step([*of_body, *carried]))
        count += 1
    return (*carried, np.int64(count), *stacks)


def run_while(cond: Nested, body: Nested, carries: Sequence[Any]) -> list[Any]:
    """Record a while loop; the carries at its end."""
    operands = (*cond.hoisted, *body.hoisted, *carries)
    params: dict[str, Any] = {
        "cond": cond.function,
        "body": body.function,
        "cond_consts": len(cond.hoisted),
        "body_consts": len(body.hoisted),
    }
    plain = [data_of(x) for x in operands]
    steps = int(evaluate(*plain, **params, capacity=0, keep=())[len(carries)])
    size = sum(atom.type.nbytes for atom in body.function.outputs)
    roomy = min(_ROOMY // max(size, 1), _STEPS)
    params["capacity"] = 1 << (max(2 * steps, roomy, 15)).bit_length()
    params["keep"] = tuple(range(len(carries)))
    return parts_of(apply(while_, operands, params))[: len(carries)]


def _vjp(
    g: Parts,
    y: Any,
    xs: Sequence[Any],
    wanted: Sequence[bool],
    times: Callable[[Any, Any], Any],
    *,
    cond: Function,
    body: Function,
    cond_consts: int,
    body_consts: int,
    capacity: int,
    keep: tuple[int, ...],
) -> list[Any]:
    of_cond, of_body, carried = cut(xs, cond_consts, body_consts)
    last, (count,), saved = cut(parts_of(y), len(carried), 1)
    seeds, _, found = cut(g, len(carried), 1)
    steps = Steps(body, count, capacity, of_body, saved, [], False)
    cs = reverse_loop(steps, last, seeds, [], found, wanted[len(of_cond) :], times)
    return [*(None for _ in of_cond), *cs]


def _jvp(
    ts: Sequence[Any],
    y: Any,
    xs: Sequence[Any],
    times: Callable[[Any, Any], Any],
    *,
    cond: Function,
    body: Function,
    cond_consts: int,
    body_consts: int,
    capacity: int,
    keep: tuple[int, ...],
) -> Parts:
    of_cond, of_body, carried = cut(xs, cond_consts, body_consts)
    _, t_body, t_carried = cut(ts, cond_consts, body_consts)
    integers = asks_of_integers([*of_body, *carried], [*t_body, *t_carried])
    duals = [
        [like(t, x) for x, t in zip(group, gs, strict=True) if moves(x, integers)]
        for group, gs in ((of_body, t_body), (carried, t_carried))
    ]
    step = pushed(body, (of_body, carried), len(carried), times, integers)
    n = len(carried)

    def holds(*flat: Any) -> list[Any]:
        fixed, values, _ = cut(flat, len(of_cond), n)
        return replay(cond, [*fixed, *values])

    carries = [*carried, *duals[1]]
    asked = nest("holds", holds, [*of_cond, *carries])
    moved = nest("push", step, [*of_body, *duals[0], *carries])
    made = apply(
        while_,
        (
            *asked.hoisted,
            *of_cond,
            *moved.hoisted,
            *of_body,
            *duals[0],
            *carries,
        ),
        {
            "cond": asked.function,
            "body": moved.function,
            "cond_consts": len(asked.hoisted) + len(of_cond),
            "body_consts": len(moved.hoisted) + len(of_body) + len(duals[0]),
            "capacity": capacity,
            "keep": tuple(range(len(carries))),
        },
    )
    marks = [moves(x, integers) for x in carried]
    _, ends, _, _, stacks = cut(parts_of(made), n, sum(marks), 1, n)
    kept = spread(stacks, marks)
    return Parts([*spread(ends, marks), None, *(kept[at] for at in keep)])


while_ = define(
    "while",
    numpy=[],
    method=None,
    entry=None,
    infer=infer,
    evaluate=evaluate,
    jvp=Joint(_jvp),
    vjp=Joint(_vjp),
    lower=While(),
)
