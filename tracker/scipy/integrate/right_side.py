"""A right side f(t, y), linearised at many points: its Jacobians and its pullback.

Complex states are pairs of real numbers here, because right sides need not be holomorphic. What the
right side captures gets its cotangent from the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.autodiff.leaves import plain_data
from tracker.autodiff.reverse import reverse_sweep
from tracker.control.body import lift_operand
from tracker.tape.observers import RunningDerivative
from tracker.tape.record import value_of, wrap
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value, new_epoch
from tracker.transforms.vmap import vmap

_MOST_COPIED = 1 << 15  # numbers
RightSide = Callable[[Any, Any], Any]  # f(t, y)


class Linearised:
    """A right side, ready to be pulled back, at one point or at the rows of t and y."""

    def __init__(self, f: RightSide, t: Any, y: Any, in_time: bool = False) -> None:
        self.since = new_epoch()
        self.leaves = [lift_operand(y), *([lift_operand(t)] if in_time else [])]
        call = vmap(f) if np.ndim(t) else f
        running = RunningDerivative(self.leaves)
        try:
            with running:
                self.out = call(wrap(self.leaves[1]) if in_time else t, wrap(self.leaves[0]))
        finally:
            running.restore()

    def pull(self, seed: Any, to: Sequence[Value]) -> list[Any]:
        """The cotangents of the leaves among `to`, and of captured values; None for zero."""
        if not isinstance(self.out, Tracked):
            return [None for _ in to]
        return reverse_sweep([(value_of(self.out), seed)], to, self.since)


def as_reals(x: Any) -> Any:
    """Complex numbers along the last axis as pairs of real ones."""
    if not np.iscomplexobj(x):
        return x
    return np.reshape(np.stack([x.real, x.imag], -1), (*np.shape(x)[:-1], -1))


class RightSidePullback:
    """Cotangents of a right side, and the totals of those of the values that it captures.
    `is_nested`: whether an outer derivative needs them to be tracked."""

    def __init__(self, captured: Sequence[Value], is_complex: bool, is_nested: bool) -> None:
        self.captured, self.is_complex, self.is_nested = captured, is_complex, is_nested
        self.totals: list[Any] = []
        self.clear()

    def clear(self) -> None:
        self.totals = [None for _ in self.captured]

    def native(self, x: Any) -> Any:
        """Real pairs as what the right side computes with."""
        return x[..., ::2] + 1j * x[..., 1::2] if self.is_complex else x

    def linearised(self, f: RightSide, t: Any, y: Any, in_time: bool) -> Linearised:
        """At the rows of t and y, for `jacobians`: as many times as there are equations, if they
        are few, so that one pullback gives all Jacobians."""
        copies = np.shape(as_reals(y))[1]
        if copies * np.size(y) > _MOST_COPIED:
            return Linearised(f, t, y, in_time)
        return Linearised(f, np.concatenate([t] * copies), np.concatenate([y] * copies), in_time)

    def jacobians(self, right: Linearised, count: int) -> Any:
        """At each of `count` rows, by equation, then by unknown."""
        rows, n = np.shape(right.leaves[0].data)
        n = 2 * n if self.is_complex else n
        seeds = np.reshape(np.repeat(np.eye(n), count, axis=0), (-1, rows, n))
        found = [right.pull(self.native(seed), right.leaves[:1])[0] for seed in seeds]
        parts = [np.zeros((rows, n)) if c is None else as_reals(c) for c in found]
        made = np.swapaxes(np.reshape(np.concatenate(parts), (n, count, n)), 0, 1)
        return made if self.is_nested else plain_data(made)

    def pull(self, right: Linearised, seed: Any, first: int = 0) -> list[Any]:
        """The cotangents of the leaves from `first` on: the states, the times if differentiated.
        Those of captured values are added to the totals."""
        own, count = right.leaves[first:], len(seed)
        more = np.shape(right.out)[0] - count  # rows that are copies
        seed = np.concatenate([seed, np.zeros((more, *np.shape(seed)[1:]))]) if more else seed
        found = right.pull(self.native(seed), [*own, *self.captured])
        for at, c in enumerate(found[len(own) :]):
            if c is not None:
                self.totals[at] = c if self.totals[at] is None else self.totals[at] + c
        pairs = zip(own, found, strict=False)
        whole = [np.zeros_like(leaf.data) if c is None else c for leaf, c in pairs]
        return [c[:count] for c in whole] if more else whole
