"""Loops and branches. A check in a body is carried out of it: JAX's control flow has no errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tracker.control.body import split_list
from tracker.control.loop import LoopParams
from tracker.control.while_loop import WhileParams
from tracker.interop.jax_ops.table import functions, rule


@rule("loop")
def _loop(step: Any, count: Any, *operands: Any, **params: Any) -> Any:
    """A `scan` where the number of steps is a constant; else a `fori_loop`, which writes rows."""
    p = LoopParams(**params)
    fixed, carried, rows = split_list(operands, p.consts, p.carries)
    body = step.nested(p.body)
    start = [
        step.typed(x, v.type) for x, v in zip(carried, p.body.inputs[p.consts :], strict=False)
    ]
    rows = list(map(jnp.asarray, rows))

    def iteration(state: Any, row: Any) -> Any:
        values, ok = state
        made, still_ok = body([*fixed, *values, *row])
        kept = [values[at] for at in p.keep]
        return (made[: p.carries], ok & still_ok), [*made[p.carries :], *kept]

    if step.is_constant(count):
        taken, ys = _scan(iteration, start, rows, int(count), p)
    else:
        step.check((count >= 0) & (count <= p.length), f"a loop takes more than {p.length} steps")
        types = [a.type for a in p.body.outputs[p.carries :]] + [start[at] for at in p.keep]
        stacks = [jnp.zeros((p.length, *t.shape), step.kind(t.dtype)) for t in types]
        taken, ys = _fori(iteration, start, rows, stacks, count, p.reverse)
    values, ok = taken
    body.leave(ok)
    return (*values, *ys)


def _scan(iteration: Any, start: Any, rows: Any, count: int, p: LoopParams) -> Any:
    rows = [row[:count] for row in rows]
    taken, ys = jax.lax.scan(iteration, (start, jnp.array(True)), rows, count, p.reverse)
    rest = p.length - count
    return taken, [jnp.pad(y, [(0, rest)] + [(0, 0)] * (y.ndim - 1)) if rest else y for y in ys]


def _fori(iteration: Any, start: Any, rows: Any, stacks: Any, count: Any, reverse: bool) -> Any:
    def step(k: Any, state: Any) -> Any:
        taken, stacks = state
        i = count - 1 - k if reverse else k
        taken, ys = iteration(
            taken, [jax.lax.dynamic_index_in_dim(row, i, 0, False) for row in rows]
        )
        return taken, [s.at[i].set(y) for s, y in zip(stacks, ys, strict=True)]

    return jax.lax.fori_loop(0, count, step, ((start, jnp.array(True)), stacks))


@rule("while")
def _while(step: Any, *operands: Any, **params: Any) -> Any:
    """Its state has whether it goes on, and whether all checks have held: it stops if not."""
    p = WhileParams(**params)
    of_cond, of_body, carried = split_list(operands, p.cond_consts, p.body_consts)
    cond, body = step.nested(p.cond), step.nested(p.body)
    start = [
        step.typed(x, v.type) for x, v in zip(carried, p.cond.inputs[p.cond_consts :], strict=True)
    ]
    stacks = [jnp.zeros((p.capacity, *start[at].shape), start[at].dtype) for at in p.keep]

    def going_on(values: Any) -> Any:
        (holds,), ok = cond([*of_cond, *values])
        return jnp.asarray(holds, bool), ok

    def has_room(count: Any) -> Any:
        return count < p.capacity if p.keep else True

    def iteration(state: Any) -> Any:
        _, ok, count, values, stacks = state
        made, still_ok = body([*of_body, *values])
        stacks = [s.at[count].set(values[at]) for s, at in zip(stacks, p.keep, strict=True)]
        holds, condition_ok = going_on(made)
        return holds, ok & still_ok & condition_ok, count + 1, made, stacks

    holds, ok = going_on(start)
    state = holds, ok, jnp.zeros((), step.kind(np.dtype(np.int64))), start, stacks
    holds, ok, count, values, stacks = jax.lax.while_loop(
        lambda state: state[0] & state[1] & has_room(state[2]), iteration, state
    )
    cond.leave(ok)
    body.leave(ok)
    if p.keep:
        step.check(~holds, f"a while loop takes more than the {p.capacity} steps that are kept")
    return (*values, count, *stacks)


@rule("branch")
def _branch(step: Any, index: Any, *operands: Any, **branches: Any) -> Any:
    bodies = [step.nested(branches[f"branch{at}"]) for at in range(len(branches))]
    values, ok = jax.lax.switch(
        jnp.asarray(index, np.int32), bodies, list(map(jnp.asarray, operands))
    )
    for body in bodies:
        body.leave(ok)
    return tuple(values)


functions({"pick": lambda bundle, at: bundle[at]})
