"""The pullback of a loop, as a loop: its body, its operands, and what its results mean.

Owns: `Steps` (a loop that has run), `Back` (the loop that goes back through it), `pullback_of`,
`arrives`. Start at `Back.step`.

A step back takes the carries that the step found, runs the body again, and pulls the cotangents of
what it gave back through it. What all steps used collects its cotangent as it goes, in carries of
its own (`sums`). But where each step would add a product of two small matrices to a big one (the
weights of a recurrent network), the factors are stacked, and one product after the loop adds them
all up: sum_t a_t b_t = [a_1 a_2 ...] [b_1; b_2; ...].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.reverse import sweep
from tracker.control.body import (
    Nested,
    as_input,
    asks_of_integers,
    cut,
    exact,
    like,
    moves,
    nest,
    stand_in,
)
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, operands_of
from tracker.ir.op import LINEAR
from tracker.ops.elementwise.binary import add, divide, multiply
from tracker.ops.linalg.matmul import matmul
from tracker.support.structs import record, replace
from tracker.tape.record import data_of, form_of, value_of, wrap
from tracker.tape.replay import replay
from tracker.tape.tracer import close
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, new_epoch

Times = Callable[[Any, Any], Any]


@record()
class Steps:
    """A loop that has run: what its steps used, and the carries that each of them found.

    saved: stacks, a row per step; None for a carry that nobody looks at (see `looked_at`).
    """

    body: Function
    count: Any
    length: int
    consts: list[Any]
    saved: list[Any]
    rows: list[Any]
    reverse: bool


class Back:
    """The loop back through `steps`.

    last      the carries after the last step
    seeds     the cotangents of `last`, None for zero
    stacked   the cotangents of what the steps gave, None for zero
    found     the cotangents of `saved`, None for zero
    wanted    per const, carry and row, whether anybody asks
    times     what the pass multiplies with
    """

    def __init__(
        self,
        steps: Steps,
        last: list[Any],
        seeds: list[Any],
        stacked: list[Any],
        found: list[Any],
        wanted: Sequence[bool],
        times: Times,
    ) -> None:
        self.steps, self.times = steps, times
        self.stacked, self.found = stacked, found
        consts, rows = steps.consts, steps.rows
        asked, _, asked_rows = cut(wanted, len(consts), len(last))
        self.moving_consts = [moves(x) and w for x, w in zip(consts, asked, strict=True)]
        self.moving_rows = [moves(x) and w for x, w in zip(rows, asked_rows, strict=True)]
        self.moving = [moves(x) for x in last]
        if asks_of_integers([*consts, *last, *rows], wanted):
            self._add_integers(asked, last, seeds, asked_rows)
        self.start = [like(g, x) for x, g, m in zip(last, seeds, self.moving, strict=True) if m]
        sums = [x for x, m in zip(consts, self.moving_consts, strict=True) if m]
        self.sums = [like(None, x) for x in sums]
        self.saved = [x for x in steps.saved if x is not None]
        self.given = [g for g in (*stacked, *found) if g is not None]
        self.factors: list[list[tuple[Any, Any]] | None] = [None] * len(sums)

    def _add_integers(
        self, asked: list[bool], last: list[Any], seeds: list[Any], asked_rows: list[bool]
    ) -> None:
        """Integers are differentiated, too, where somebody asks: those at which something arrives,
        be it only after some steps."""
        consts, rows, moving = self.steps.consts, self.steps.rows, self.moving
        given = zip(moving, seeds, self.found, strict=True)
        moving = [m or g is not None or h is not None for m, g, h in given]
        marks = [*asked, *(True for _ in last), *asked_rows]
        sample = [*consts, *self._sample_carries(), *(self._sample(x) for x in rows)]
        of_ys = [None if g is None else self._sample(g) for g in self.stacked]
        while True:
            cts = [like(None, x) if m else None for x, m in zip(last, moving, strict=True)]
            reached = arrives(self.steps.body, sample, marks, [*cts, *of_ys], self.times)
            of_consts, of_carries, of_rows = cut(reached, len(consts), len(last))
            more = [m or r for m, r in zip(moving, of_carries, strict=True)]
            if more == moving:
                break
            moving = more
        self.moving = moving
        self.moving_consts = [
            w and (moves(x) or r) for x, w, r in zip(consts, asked, of_consts, strict=True)
        ]
        self.moving_rows = [
            w and (moves(x) or r) for x, w, r in zip(rows, asked_rows, of_rows, strict=True)
        ]

    def _sample(self, stack: Any) -> Any:
        """A row of the first step back."""
        steps = self.steps
        return data_of(stack)[0 if steps.reverse else max(int(data_of(steps.count)) - 1, 0)]

    def _sample_carries(self) -> list[Any]:
        types = [v.type for v in self.steps.body.inputs[len(self.steps.consts) :]]
        return [
            np.zeros(t.shape, t.dtype)[()] if x is None else data_of(as_input(self._sample(x), t))
            for x, t in zip(self.steps.saved, types, strict=False)
        ]

    def step(self, *flat: Any) -> list[Any]:
        """One step back: cotangents of the carries, sums, cotangents of the rows, factors."""
        steps = self.steps
        counts = (len(steps.consts), len(self.start), len(self.sums), len(self.saved))
        fixed, cts, totals, saved, rest = cut(flat, *counts)
        elements, arrived = cut(rest, len(steps.rows))
        carries = self._carries(cts, saved)
        marks = [*self.moving_consts, *self.moving, *self.moving_rows]
        leaves, pull = pullback_of(steps.body, [*fixed, *carries, *elements], marks)
        gs = iter(arrived)
        of_ys = [None if g is None else next(gs) for g in self.stacked]
        of_saved = [None if g is None else next(gs) for g in self.found]
        cs = pull([*spread(cts, self.moving), *of_ys], self.times)
        parts = (len(totals), len(cts))
        (of_consts, of_carries, of_rows), of = cut(cs, *parts), cut(leaves, *parts)
        more = [g for g, m in zip(of_saved, self.moving, strict=True) if m]
        news = [
            exact(c if g is None else g if c is None else c + g, leaf)
            for c, g, leaf in zip(of_carries, more, of[1], strict=True)
        ]
        ys = [exact(c, leaf) for c, leaf in zip(of_rows, of[2], strict=True)]
        return [*news, *self._summed(of_consts, totals, of[0]), *ys, *self._flat_factors()]

    def _carries(self, cts: list[Any], saved: list[Any]) -> list[Any]:
        """What the step found; anything will do for a carry that nobody looks at."""
        rows, sent = iter(saved), iter(spread(cts, self.moving))
        types = [v.type for v in self.steps.body.inputs[len(self.steps.consts) :]]
        out = []
        for stack, type in zip(self.steps.saved, types, strict=False):
            ct = next(sent)
            out.append(np.zeros_like(ct) if stack is None else as_input(next(rows), type))
        return out

    def _summed(self, cs: list[Any], totals: list[Any], leaves: list[Value]) -> list[Any]:
        """The sums with this step's share; those that are left to a product are left out."""
        out = []
        for at, (c, total, leaf) in enumerate(zip(cs, totals, leaves, strict=True)):
            self.factors[at] = None if isinstance(self.steps.count, Tracked) else _factors(c, leaf)
            if self.factors[at] is None:
                out.append(total if c is None else exact(total + c, leaf))
        return out

    def _flat_factors(self) -> list[Any]:
        return [x for pairs in self.factors for pair in pairs or () for x in pair]

    def loop(self) -> dict[str, Any]:
        """The loop back, as `run_loop` takes it."""
        steps = self.steps
        per_step = [*self.saved, *steps.rows, *self.given]
        samples = [*steps.consts, *self.start, *self.sums, *map(self._sample, per_step)]
        nested = nest("back", self.step, samples)
        before = len(nested.hoisted) + len(steps.consts) + len(self.start)
        left = [at for at, pairs in enumerate(self.factors) if pairs is None]
        return {
            "body": _without(
                nested, before, [at for at in range(len(self.sums)) if at not in left]
            ),
            "count": steps.count,
            "consts": [*nested.hoisted, *steps.consts],
            "carries": [*self.start, *(self.sums[at] for at in left)],
            "rows": per_step,
            "length": steps.length,
            "reverse": not steps.reverse,
            "keep": looked_at(nested.function, before - len(self.start), len(self.start)),
        }

    def cotangents(self, made: list[Any]) -> list[Any]:
        """Cotangents of consts, carries and rows, from the results of the loop back."""
        summed = sum(pairs is None for pairs in self.factors)
        of_carries, sums, of_rows, factors = cut(
            made, len(self.start), summed, sum(self.moving_rows)
        )
        totals, stacks = iter(sums), iter(factors)
        of_consts = [
            next(totals)
            if pairs is None
            else _joined([(next(stacks), next(stacks)) for _ in pairs])
            for pairs in self.factors
        ]
        return [
            *spread(of_consts, self.moving_consts),
            *spread(of_carries, self.moving),
            *spread(of_rows, self.moving_rows),
        ]


def looked_at(body: Function, consts: int, carries: int) -> tuple[int, ...]:
    """The carries whose numbers a pullback of the body may look at, by place. The others are only
    added up, moved, and scaled by literals, so that any numbers will do for them."""
    read: set[Atom] = set()
    for step in reversed(body.body):
        if isinstance(step, Guard) or step.out in read or not _is_blind(step):
            read.update(operands_of(step))
    given = body.inputs[consts : consts + carries]
    plain = [var.type.shape and var.type.dtype.kind in "fc" for var in given]
    return tuple(at for at, var in enumerate(given) if var in read or not plain[at])


def _is_blind(eqn: Eqn) -> bool:
    """Whether no rule of an equation looks at the numbers of variables, and nobody can for whom
    they are places, or yes and no."""
    if eqn.out.type.dtype.kind not in "fc":
        return False
    if eqn.op.jvp == LINEAR or (not eqn.op.saves and all(eqn.op.partials or ())):
        return True  # not of steps, whose partials are 0: these may divide by anything
    a, b = eqn.operands if eqn.op is multiply or eqn.op is divide else (None, None)
    return isinstance(b, Const) or (eqn.op is multiply and isinstance(a, Const))


def _without(nested: Nested, before: int, places: list[int]) -> Function:
    """The function without inputs that it does not read."""
    dropped = {before + at for at in places}
    inputs = tuple(v for at, v in enumerate(nested.function.inputs) if at not in dropped)
    return replace(nested.function, inputs=inputs)


def _factors(c: Any, leaf: Value) -> list[tuple[Any, Any]] | None:
    """The factors of a sum of matrix products, where they are smaller than the product."""
    pairs = _terms(value_of(c)) if isinstance(c, Tracked) else None
    if pairs is None or np.result_type(form_of(c)) != np.result_type(leaf.form):
        return None
    size = sum(np.size(form_of(a)) + np.size(form_of(b)) for a, b in pairs)
    return pairs if 2 * size <= np.size(leaf.form) else None


def _terms(value: Value) -> list[tuple[Any, Any]] | None:
    if value.op is add:
        both = [_terms(o) if type(o) is Value else None for o in value.operands]
        return None if both[0] is None or both[1] is None else both[0] + both[1]
    if value.op is not matmul or not all(
        type(o) is Value and o.data.ndim == 2 for o in value.operands
    ):
        return None
    a, b = value.operands
    return [(wrap(a), wrap(b))]


def _joined(pairs: list[tuple[Any, Any]]) -> Any:
    """The sum over all steps of all products, as one product."""
    total = None
    for a, b in pairs:
        (steps, m, k), n = np.shape(a), np.shape(b)[2]
        left = np.reshape(np.transpose(a, (1, 0, 2)), (m, steps * k))
        product = np.matmul(left, np.reshape(b, (steps * k, n)))
        total = product if total is None else total + product
    return total


def spread(found: Sequence[Any], marks: Sequence[bool]) -> list[Any]:
    """One entry per mark: the next one found, or None."""
    arrived = iter(found)
    return [next(arrived) if mark else None for mark in marks]


def replay_on_leaves(
    body: Function, values: Sequence[Any], marks: Sequence[bool]
) -> tuple[int, list[Value], list[Any]]:
    """Run a body on fresh leaves in place of the marked values, for a pass of one's own: the epoch
    since which to look, the leaves (closed by now), and the results."""
    since = new_epoch()
    leaves = [stand_in(x) for x, mark in zip(values, marks, strict=True) if mark]
    given = iter(leaves)
    outs = replay(body, [wrap(next(given)) if m else x for x, m in zip(values, marks, strict=True)])
    for leaf in leaves:
        close(leaf)
    return since, leaves, outs


def pullback_of(
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
        return sweep(roots, leaves, since, times=times)

    return leaves, pull


def arrives(
    body: Function, values: list[Any], marks: Sequence[bool], seeds: Sequence[Any], times: Times
) -> list[bool]:
    """At which of the marked values of a body a cotangent arrives, where it has these seeds."""
    found: list[Any] = []

    def probe(*flat: Any) -> list[Any]:
        given, cts = cut(flat, len(values))
        rest = iter(cts)
        _, pull = pullback_of(body, given, marks)
        found[:] = pull([None if g is None else next(rest) for g in seeds], times)
        return []

    nest("probe", probe, [*values, *(g for g in seeds if g is not None)])
    return [c is not None for c in spread(found, marks)]
