"""The op `while_`: a loop whose number of steps is known only after it has run.

Its pullback is a counted reverse loop over the saved carries; its pushforward is a while loop over
values and tangents whose condition reads the values.

The length of the saved stacks is a param of the op (`capacity`), at least twice the steps that the
trace saw. A compiled loop that outgrows its stacks fails like a guard and is traced again with
longer ones: there is no bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.reverse import Times
from tracker.control.body import (
    TracedBody,
    as_tangent_of,
    is_active,
    needs_integer_derivatives,
    recorded,
    reusable_key,
    split_list,
    trace_body,
)
from tracker.control.loop import dual_body, record_reverse_loop
from tracker.control.loop_pullback import LoopRun, fill_by_mask
from tracker.control.step_runner import make_stepper, note_equations, run_natively
from tracker.ir.graph import Function
from tracker.ir.lowering import While
from tracker.ir.op import Joint, define
from tracker.ir.types import Bundle, Type, type_of
from tracker.ops.declare.bundle import BundleParts, pick, unbundle
from tracker.ops.elementwise.comparison import less, logical_and
from tracker.support.recently_used import RecentlyUsed
from tracker.support.structs import record
from tracker.tape.plain_replay import count_steps_run
from tracker.tape.record import ReplayDiverged, apply, aval_of, data_of, replay
from tracker.tape.tracing.tracer import StopGradient, note_trip_count

_FIRST_TRY = 4  # after so many steps, and whenever they have doubled, the rest may run natively
_INITIAL_STACK_BYTES = 1 << 20  # of saved carries, reserved in any case
_INITIAL_STACK_STEPS = 1 << 16  # at most, unless the trace saw more

_counting: RecentlyUsed[Hashable, tuple[Function, Function]] = RecentlyUsed(64)


@record(frozen=True)
class WhileParams:
    """The params of a `while_`; see `ir.lowering.While`."""

    cond: Function
    body: Function
    cond_consts: int
    body_consts: int
    capacity: int
    keep: tuple[int, ...]


def infer(*operands: Type, **params: Any) -> Type:
    p = WhileParams(**params)
    of_cond, of_body, carried = split_list(operands, p.cond_consts, p.body_consts)
    if [*of_cond, *carried] != [v.type for v in p.cond.inputs]:
        raise TypeError(f"the condition takes {[str(v.type) for v in p.cond.inputs]}")
    if [*of_body, *carried] != [v.type for v in p.body.inputs]:
        raise TypeError(f"the body takes {[str(v.type) for v in p.body.inputs]}")
    if carried != [atom.type for atom in p.body.outputs]:
        raise TypeError(f"the body gives {[str(atom.type) for atom in p.body.outputs]}")
    kept = (Type((p.capacity, *carried[i].shape), carried[i].dtype) for i in p.keep)
    return Bundle.of([*carried, Type((), np.dtype(np.int64)), *kept])


@record(frozen=True)
class _Run:
    """The last carries of a loop, how many steps it took, and what these keep: `rows` of the first
    ones, and after these the rows of `stacks`."""

    carried: Sequence[Any]
    count: int
    rows: Sequence[Sequence[Any]]
    stacks: Sequence[Any] = ()


def evaluate(*operands: Any, **params: Any) -> tuple[Any, ...]:
    p = WhileParams(**params)
    native = run_natively(while_, (p.cond, p.body), operands, params)
    if native is not None:
        return native
    return _results(p, _run(operands, params, p.capacity if p.keep else None))


def _run(operands: Sequence[Any], params: dict[str, Any], limit: int | None) -> _Run:
    """Run a loop, of whose steps there may be a limit; the rest natively, once it has run long."""
    p = WhileParams(**params)
    of_cond, of_body, carried = split_list(operands, p.cond_consts, p.body_consts)
    rows: list[list[Any]] = []
    holds, step = make_stepper(p.cond), make_stepper(p.body)
    noted, native, next_try = count_steps_run(), None, _FIRST_TRY
    while holds([*of_cond, *carried])[0]:
        if len(rows) == limit:
            raise ReplayDiverged
        if len(rows) == next_try:
            note_equations(p.body, count_steps_run() - noted)
            noted, next_try = count_steps_run(), 2 * next_try
            native = run_natively(while_, (p.cond, p.body), [*of_cond, *of_body, *carried], params)
            if native is not None:
                break
        rows.append([carried[at] for at in p.keep])
        carried = list(step([*of_body, *carried]))
    note_equations(p.body, count_steps_run() - noted)
    carried, (more,), stacks = split_list(native or (*carried, 0), len(carried), 1)
    count = len(rows) + int(more)
    if limit is not None and count > limit:
        raise ReplayDiverged
    note_trip_count(p.body, count)
    return _Run(carried, count, rows, stacks)


def _results(p: WhileParams, run: _Run) -> tuple[Any, ...]:
    """What the op gives, of a run."""
    types = [p.body.outputs[at].type for at in p.keep]
    stacks = [np.zeros((p.capacity, *t.shape), t.dtype) for t in types]
    for at, numbers in enumerate(run.rows):
        for stack, number in zip(stacks, numbers, strict=True):
            stack[at] = number
    first = len(run.rows)
    for stack, rest in zip(stacks, run.stacks, strict=False):
        stack[first : run.count] = rest[: run.count - first]
    return (*run.carried, np.int64(run.count), *stacks)


def record_while(
    cond: TracedBody, body: TracedBody, carries: Sequence[Any], capacity: int | None = None
) -> list[Any]:
    """Record a while loop; returns its final carries, the number of steps, and the stacks of the
    carries at the start of each step. `capacity`: the least length of the stacks."""
    operands, params = _operands_and_params(cond, body, carries, 0)
    if capacity is None:
        capacity = _initial_capacity(body)
    params["capacity"] = _capacity(0, capacity)  # the usual one
    run = _run([*map(data_of, operands)], params, None)
    params["capacity"] = _capacity(run.count, capacity)
    found = _results(WhileParams(**params), run)
    return unbundle(recorded(while_, operands, params, found))


def _initial_capacity(body: TracedBody) -> int:
    """The length of stacks for the carries of a loop, of which little is known."""
    size = sum(atom.type.nbytes for atom in body.function.outputs)
    return min(_INITIAL_STACK_BYTES // max(size, 1), _INITIAL_STACK_STEPS)


def _capacity(steps: int, least: int) -> int:
    """The length of stacks for the steps that a loop takes now, and for more."""
    return 1 << max(2 * steps, least, 15).bit_length()


def count_steps(
    step: TracedBody, carries: Sequence[Any], rows: Sequence[Any], limit: int
) -> tuple[Any, int]:
    """How many steps of a counted loop come before the first one whose last result is false, at
    most `limit`: a tracked number without derivatives; and the length of stacks for the steps. The
    arguments are those of a `loop`. If there are more steps than fit, the number is this length."""
    with StopGradient(), np.errstate(all="ignore"):
        starts = [*carries, np.int64(0), np.True_]
        cond, body = _counting_bodies(step, starts, rows, limit)
        (_, *operands), params = _operands_and_params(cond, body, starts, 0)
        params["keep"] = ()
        run = _run([*map(data_of, (limit, *operands))], params, None)
        length = min(limit, _capacity(run.count, _initial_capacity(body)))
        found = _results(WhileParams(**params), run)
        made = recorded(while_, (length, *operands), params, found)
        return apply(pick, (made,), {"at": len(carries)}), length


def _counting_bodies(
    step: TracedBody, starts: Sequence[Any], rows: Sequence[Any], limit: int
) -> tuple[TracedBody, TracedBody]:
    """The condition and the body of the `while_` that counts steps; of equal steps, the same."""
    consts = [*step.hoisted, *rows]
    sizes = len(step.hoisted), len(rows), len(starts) - 2

    def goes_on(most: Any, *flat: Any) -> list[Any]:
        *_, count, is_alike = flat
        return [apply(logical_and, (is_alike, apply(less, (count, most))))]

    def next_step(*flat: Any) -> list[Any]:
        fixed, stacks, carried, (count, _) = split_list(flat, *sizes)
        elements = [stack[count] for stack in stacks]
        found = replay(step.function, [*fixed, *carried, *elements])
        return [*found[: len(carried)], count + found[-1], found[-1]]

    mark = reusable_key(step.function)
    key = mark and (mark, tuple([type_of(aval_of(x)) for x in (*starts, *consts)]))
    known = None if key is None else _counting.get(key)
    if known is not None:
        return TracedBody(known[0], [limit]), TracedBody(known[1], consts)
    cond = trace_body("goes_on", goes_on, starts, [limit])
    body = trace_body("next_step", next_step, starts, consts)
    if key is not None and body.serves_others(consts):
        _counting.put(key, (cond.function, body.function))
    return cond, body


def _operands_and_params(
    cond: TracedBody, body: TracedBody, carries: Sequence[Any], capacity: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    params = {
        "cond": cond.function,
        "body": body.function,
        "cond_consts": len(cond.hoisted),
        "body_consts": len(body.hoisted),
        "capacity": capacity,
        "keep": tuple(range(len(carries))),
    }
    return (*cond.hoisted, *body.hoisted, *carries), params


def _vjp(
    g: BundleParts, y: Any, xs: Sequence[Any], wanted: Sequence[bool], times: Times, **params: Any
) -> list[Any]:
    p = WhileParams(**params)
    of_cond, of_body, carried = split_list(xs, p.cond_consts, p.body_consts)
    last, (count,), saved = split_list(unbundle(y), len(carried), 1)
    seeds, _, found = split_list(g, len(carried), 1)
    run = LoopRun(p.body, count, p.capacity, of_body, saved, {}, [], [], [], False)
    cs = record_reverse_loop(run, last, seeds, [], found, wanted[len(of_cond) :], times)
    return [*(None for _ in of_cond), *cs]


def _jvp(ts: Sequence[Any], y: Any, xs: Sequence[Any], times: Times, **params: Any) -> BundleParts:
    p = WhileParams(**params)
    of_cond, of_body, carried = split_list(xs, p.cond_consts, p.body_consts)
    _, t_body, t_carried = split_list(ts, p.cond_consts, p.body_consts)
    integers = needs_integer_derivatives([*of_body, *carried], [*t_body, *t_carried])
    duals = [
        [as_tangent_of(t, x) for x, t in zip(group, gs, strict=True) if is_active(x, integers)]
        for group, gs in ((of_body, t_body), (carried, t_carried))
    ]
    step = dual_body(p.body, (of_body, carried), len(carried), times, integers)
    n = len(carried)

    def holds(*flat: Any) -> list[Any]:
        fixed, values, _ = split_list(flat, len(of_cond), n)
        return replay(p.cond, [*fixed, *values])

    carries = [*carried, *duals[1]]
    traced_cond = trace_body("holds", holds, carries, of_cond)
    traced_step = trace_body("push", step, carries, [*of_body, *duals[0]])
    made = apply(while_, *_operands_and_params(traced_cond, traced_step, carries, p.capacity))
    marks = [is_active(x, integers) for x in carried]
    _, ends, _, _, stacks = split_list(unbundle(made), n, sum(marks), 1, n)
    kept = fill_by_mask(stacks, marks)
    return BundleParts([*fill_by_mask(ends, marks), None, *(kept[at] for at in p.keep)])


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
