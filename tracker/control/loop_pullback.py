"""The pullback of a loop, as a loop: its body, its operands, and what its results mean.

Owns: `LoopRun` (a loop that has run), `ReverseLoop` (the loop that goes back through it),
`body_pullback`, `reached_operands`. Start at `ReverseLoop.step`.

A step back takes the carries that the step found, runs the body again, and pulls the cotangents of
what it gave back through it. What all steps used collects its cotangent as it goes, in carries of
its own (`const_sums`). But where each step would add a product of two small matrices to a big one
(the weights of a recurrent network), the factors are stacked, and one product after the loop adds
them all up: sum_t a_t b_t = [a_1 a_2 ...] [b_1; b_2; ...].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.reverse import reverse_sweep
from tracker.control.body import (
    TracedBody,
    as_tangent_of,
    as_tangent_of_value,
    is_active,
    lift_operand,
    needs_integer_derivatives,
    restore_weak_type,
    split_list,
    trace_body,
)
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, operands_of
from tracker.ir.op import LINEAR
from tracker.ops.elementwise.binary import add, divide, multiply
from tracker.ops.linalg.matmul import matmul
from tracker.support.structs import record, replace
from tracker.tape.record import aval_of, data_of, value_of, wrap
from tracker.tape.replay import replay
from tracker.tape.tracer import close_leaf
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, new_epoch

Times = Callable[[Any, Any], Any]


@record()
class LoopRun:
    """A loop that has run: what its steps used, and the carries that each of them found.

    saved: stacks, a row per step; None for a carry that nobody looks at (see
    `carries_read_by_pullback`).
    """

    body: Function
    count: Any
    length: int
    consts: list[Any]
    saved_carries: list[Any]
    rows: list[Any]
    reverse: bool


class ReverseLoop:
    """The loop back through `run`.

    last      the carries after the last step
    seeds     the cotangents of `final_carries`, None for zero
    stacked   the cotangents of what the steps gave, None for zero
    found     the cotangents of `saved_carries`, None for zero
    wanted    per const, carry and row, whether anybody asks
    times     what the pass multiplies with
    """

    def __init__(
        self,
        run: LoopRun,
        final_carries: list[Any],
        seeds: list[Any],
        output_cotangents: list[Any],
        saved_cotangents: list[Any],
        wanted: Sequence[bool],
        times: Times,
    ) -> None:
        self.run, self.times = run, times
        self.output_cotangents, self.saved_cotangents = output_cotangents, saved_cotangents
        consts, rows = run.consts, run.rows
        asked, _, asked_rows = split_list(wanted, len(consts), len(final_carries))
        self.active_consts = [is_active(x) and w for x, w in zip(consts, asked, strict=True)]
        self.active_rows = [is_active(x) and w for x, w in zip(rows, asked_rows, strict=True)]
        self.active_carries = [is_active(x) for x in final_carries]
        if needs_integer_derivatives([*consts, *final_carries, *rows], wanted):
            self._activate_integers(asked, final_carries, seeds, asked_rows)
        self.carry_cotangents = [
            as_tangent_of(g, x)
            for x, g, m in zip(final_carries, seeds, self.active_carries, strict=True)
            if m
        ]
        sums = [x for x, m in zip(consts, self.active_consts, strict=True) if m]
        self.const_sums = [as_tangent_of(None, x) for x in sums]
        self.saved_carries = [x for x in run.saved_carries if x is not None]
        self.row_cotangents = [g for g in (*output_cotangents, *saved_cotangents) if g is not None]
        self.factors: list[list[tuple[Any, Any]] | None] = [None] * len(sums)

    def _activate_integers(
        self, asked: list[bool], last: list[Any], seeds: list[Any], asked_rows: list[bool]
    ) -> None:
        """Integers are differentiated, too, where somebody asks: those at which something arrives,
        be it only after some steps."""
        consts, rows, moving = self.run.consts, self.run.rows, self.active_carries
        given = zip(moving, seeds, self.saved_cotangents, strict=True)
        moving = [m or g is not None or h is not None for m, g, h in given]
        marks = [*asked, *(True for _ in last), *asked_rows]
        sample = [*consts, *self._sample_carries(), *(self._sample(x) for x in rows)]
        of_ys = [None if g is None else self._sample(g) for g in self.output_cotangents]
        while True:
            cts = [as_tangent_of(None, x) if m else None for x, m in zip(last, moving, strict=True)]
            reached = reached_operands(self.run.body, sample, marks, [*cts, *of_ys], self.times)
            of_consts, of_carries, of_rows = split_list(reached, len(consts), len(last))
            more = [m or r for m, r in zip(moving, of_carries, strict=True)]
            if more == moving:
                break
            moving = more
        self.active_carries = moving
        self.active_consts = [
            w and (is_active(x) or r) for x, w, r in zip(consts, asked, of_consts, strict=True)
        ]
        self.active_rows = [
            w and (is_active(x) or r) for x, w, r in zip(rows, asked_rows, of_rows, strict=True)
        ]

    def _sample(self, stack: Any) -> Any:
        """A row of the first step back."""
        steps = self.run
        return data_of(stack)[0 if steps.reverse else max(int(data_of(steps.count)) - 1, 0)]

    def _sample_carries(self) -> list[Any]:
        types = [v.type for v in self.run.body.inputs[len(self.run.consts) :]]
        return [
            np.zeros(t.shape, t.dtype)[()]
            if x is None
            else data_of(restore_weak_type(self._sample(x), t))
            for x, t in zip(self.run.saved_carries, types, strict=False)
        ]

    def step(self, *flat: Any) -> list[Any]:
        """One step back: cotangents of the carries, sums, cotangents of the rows, factors."""
        steps = self.run
        counts = (
            len(steps.consts),
            len(self.carry_cotangents),
            len(self.const_sums),
            len(self.saved_carries),
        )
        fixed, cts, totals, saved, rest = split_list(flat, *counts)
        elements, arrived = split_list(rest, len(steps.rows))
        carries = self._step_carries(cts, saved)
        marks = [*self.active_consts, *self.active_carries, *self.active_rows]
        leaves, pull = body_pullback(steps.body, [*fixed, *carries, *elements], marks)
        gs = iter(arrived)
        of_ys = [None if g is None else next(gs) for g in self.output_cotangents]
        of_saved = [None if g is None else next(gs) for g in self.saved_cotangents]
        cs = pull([*fill_by_mask(cts, self.active_carries), *of_ys], self.times)
        parts = (len(totals), len(cts))
        (of_consts, of_carries, of_rows), of = split_list(cs, *parts), split_list(leaves, *parts)
        more = [g for g, m in zip(of_saved, self.active_carries, strict=True) if m]
        news = [
            as_tangent_of_value(c if g is None else g if c is None else c + g, leaf)
            for c, g, leaf in zip(of_carries, more, of[1], strict=True)
        ]
        ys = [as_tangent_of_value(c, leaf) for c, leaf in zip(of_rows, of[2], strict=True)]
        return [*news, *self._updated_sums(of_consts, totals, of[0]), *ys, *self._flat_factors()]

    def _step_carries(self, cts: list[Any], saved: list[Any]) -> list[Any]:
        """What the step found; anything will do for a carry that nobody looks at."""
        rows, sent = iter(saved), iter(fill_by_mask(cts, self.active_carries))
        types = [v.type for v in self.run.body.inputs[len(self.run.consts) :]]
        out = []
        for stack, type in zip(self.run.saved_carries, types, strict=False):
            ct = next(sent)
            out.append(np.zeros_like(ct) if stack is None else restore_weak_type(next(rows), type))
        return out

    def _updated_sums(self, cs: list[Any], totals: list[Any], leaves: list[Value]) -> list[Any]:
        """The sums with this step's share; those that are left to a product are left out."""
        out = []
        for at, (c, total, leaf) in enumerate(zip(cs, totals, leaves, strict=True)):
            self.factors[at] = (
                None if isinstance(self.run.count, Tracked) else _matmul_factors(c, leaf)
            )
            if self.factors[at] is None:
                out.append(total if c is None else as_tangent_of_value(total + c, leaf))
        return out

    def _flat_factors(self) -> list[Any]:
        return [x for pairs in self.factors for pair in pairs or () for x in pair]

    def arguments(self) -> dict[str, Any]:
        """The loop back, as `run_loop` takes it."""
        steps = self.run
        per_step = [*self.saved_carries, *steps.rows, *self.row_cotangents]
        samples = [
            *steps.consts,
            *self.carry_cotangents,
            *self.const_sums,
            *map(self._sample, per_step),
        ]
        nested = trace_body("back", self.step, samples)
        before = len(nested.hoisted) + len(steps.consts) + len(self.carry_cotangents)
        left = [at for at, pairs in enumerate(self.factors) if pairs is None]
        return {
            "body": _drop_inputs(
                nested, before, [at for at in range(len(self.const_sums)) if at not in left]
            ),
            "count": steps.count,
            "consts": [*nested.hoisted, *steps.consts],
            "carries": [*self.carry_cotangents, *(self.const_sums[at] for at in left)],
            "rows": per_step,
            "length": steps.length,
            "reverse": not steps.reverse,
            "keep": carries_read_by_pullback(
                nested.function, before - len(self.carry_cotangents), len(self.carry_cotangents)
            ),
        }

    def cotangents(self, made: list[Any]) -> list[Any]:
        """Cotangents of consts, carries and rows, from the results of the loop back."""
        summed = sum(pairs is None for pairs in self.factors)
        of_carries, sums, of_rows, factors = split_list(
            made, len(self.carry_cotangents), summed, sum(self.active_rows)
        )
        totals, stacks = iter(sums), iter(factors)
        of_consts = [
            next(totals)
            if pairs is None
            else _concatenated_product([(next(stacks), next(stacks)) for _ in pairs])
            for pairs in self.factors
        ]
        return [
            *fill_by_mask(of_consts, self.active_consts),
            *fill_by_mask(of_carries, self.active_carries),
            *fill_by_mask(of_rows, self.active_rows),
        ]


def carries_read_by_pullback(body: Function, consts: int, carries: int) -> tuple[int, ...]:
    """The carries whose numbers a pullback of the body may look at, by place. The others are only
    added up, moved, and scaled by literals, so that any numbers will do for them."""
    read: set[Atom] = set()
    for step in reversed(body.body):
        if isinstance(step, Guard) or step.out in read or not _pullback_ignores_operands(step):
            read.update(operands_of(step))
    given = body.inputs[consts : consts + carries]
    plain = [var.type.shape and var.type.dtype.kind in "fc" for var in given]
    return tuple(at for at, var in enumerate(given) if var in read or not plain[at])


def _pullback_ignores_operands(eqn: Eqn) -> bool:
    """Whether no rule of an equation looks at the numbers of variables, and nobody can for whom
    they are places, or yes and no."""
    if eqn.out.type.dtype.kind not in "fc":
        return False
    if eqn.op.jvp == LINEAR or (not eqn.op.needs_operand_values and all(eqn.op.partials or ())):
        return True  # not of steps, whose partials are 0: these may divide by anything
    a, b = eqn.operands if eqn.op is multiply or eqn.op is divide else (None, None)
    return isinstance(b, Const) or (eqn.op is multiply and isinstance(a, Const))


def _drop_inputs(nested: TracedBody, before: int, places: list[int]) -> Function:
    """The function without inputs that it does not read."""
    dropped = {before + at for at in places}
    inputs = tuple(v for at, v in enumerate(nested.function.inputs) if at not in dropped)
    return replace(nested.function, inputs=inputs)


def _matmul_factors(c: Any, leaf: Value) -> list[tuple[Any, Any]] | None:
    """The factors of a sum of matrix products, where they are smaller than the product."""
    pairs = _matmul_terms(value_of(c)) if isinstance(c, Tracked) else None
    if pairs is None or np.result_type(aval_of(c)) != np.result_type(leaf.aval):
        return None
    size = sum(np.size(aval_of(a)) + np.size(aval_of(b)) for a, b in pairs)
    return pairs if 2 * size <= np.size(leaf.aval) else None


def _matmul_terms(value: Value) -> list[tuple[Any, Any]] | None:
    if value.op is add:
        both = [_matmul_terms(o) if type(o) is Value else None for o in value.operands]
        return None if both[0] is None or both[1] is None else both[0] + both[1]
    if value.op is not matmul or not all(
        type(o) is Value and o.data.ndim == 2 for o in value.operands
    ):
        return None
    a, b = value.operands
    return [(wrap(a), wrap(b))]


def _concatenated_product(pairs: list[tuple[Any, Any]]) -> Any:
    """The sum over all steps of all products, as one product."""
    total = None
    for a, b in pairs:
        (steps, m, k), n = np.shape(a), np.shape(b)[2]
        left = np.reshape(np.transpose(a, (1, 0, 2)), (m, steps * k))
        product = np.matmul(left, np.reshape(b, (steps * k, n)))
        total = product if total is None else total + product
    return total


def fill_by_mask(found: Sequence[Any], marks: Sequence[bool]) -> list[Any]:
    """One entry per mark: the next one found, or None."""
    arrived = iter(found)
    return [next(arrived) if mark else None for mark in marks]


def replay_on_leaves(
    body: Function, values: Sequence[Any], marks: Sequence[bool]
) -> tuple[int, list[Value], list[Any]]:
    """Run a body on fresh leaves in place of the marked values, for a pass of one's own: the epoch
    since which to look, the leaves (closed by now), and the results."""
    since = new_epoch()
    leaves = [lift_operand(x) for x, mark in zip(values, marks, strict=True) if mark]
    given = iter(leaves)
    outs = replay(body, [wrap(next(given)) if m else x for x, m in zip(values, marks, strict=True)])
    for leaf in leaves:
        close_leaf(leaf)
    return since, leaves, outs


def body_pullback(
    body: Function, values: list[Any], marks: Sequence[bool]
) -> tuple[list[Value], Callable[[Sequence[Any], Times], list[Any]]]:
    """Leaves for the marked values of a body, and the pullback of its results to them."""
    since, leaves, outs = replay_on_leaves(body, values, marks)

    def pull(seeds: Sequence[Any], times: Times) -> list[Any]:
        roots = [
            (value_of(out), g)
            for out, g in zip(outs, seeds, strict=True)
            if g is not None and isinstance(out, Tracked)
        ]
        return reverse_sweep(roots, leaves, since, times=times)

    return leaves, pull


def reached_operands(
    body: Function, values: list[Any], marks: Sequence[bool], seeds: Sequence[Any], times: Times
) -> list[bool]:
    """At which of the marked values of a body a cotangent arrives, where it has these seeds."""
    found: list[Any] = []

    def probe(*flat: Any) -> list[Any]:
        given, cts = split_list(flat, len(values))
        rest = iter(cts)
        _, pull = body_pullback(body, given, marks)
        found[:] = pull([None if g is None else next(rest) for g in seeds], times)
        return []

    trace_body("probe", probe, [*values, *(g for g in seeds if g is not None)])
    return [c is not None for c in fill_by_mask(found, marks)]
