"""Repeat detection: runs of steps that are equal from one period to the next.

Two steps are equal when they have the same op, params and types, and literals in the same places;
which values they read, and the integers of a basic index, may differ (`recurrences.py` looks at
these). Runs do not overlap, and inner loops are found before the loops around them.

Invariant: linear in the steps. A run is detected where eight steps in a row are equal to eight
earlier ones. Comparing on from there is paid for by the steps that the run covers, or out of an
allowance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from tracker.ir.graph import Atom, Const, Eqn, Guard
from tracker.ir.passes.loop_limits import MIN_REPETITIONS
from tracker.ir.structural_keys import identity_key, params_key
from tracker.ir.types import Type
from tracker.support.structs import record

MIN_STEPS = 150  # of a run; a shorter one is left to the loop around it
_DOUBLINGS = 3  # 2**3 steps are compared to detect a run
_ALLOWANCE = 8  # comparisons per step of the body without a result


@record(frozen=True)
class Run:
    """`count` repetitions of `period` steps, from step number `start` on."""

    start: int
    period: int
    count: int


def find_runs(body: Sequence[Eqn | Guard], fits: Callable[[Eqn], bool]) -> list[Run]:
    """The runs of a body, in order, of equations that fit."""
    kinds = _StepClasses(fits).of(body)
    return list(_runs(kinds, _distances(kinds)))


def has_variable_index(eqn: Eqn) -> bool:
    """Whether the integers in the equation's index may differ between repetitions."""
    return eqn.op.name in ("getitem", "embed", "put")


def index_integers(index: tuple[Any, ...]) -> list[int]:
    """The integers of a basic index that may differ: positions, and starts of slices."""
    return [part.start if isinstance(part, slice) else part for part in index if part is not None]


class _StepClasses:
    """Numbers of steps: the same number for equal steps."""

    def __init__(self, fits: Callable[[Eqn], bool]) -> None:
        self.fits = fits
        self.numbers: dict[Hashable, int] = {}
        self.types: dict[Type, int] = {}
        self.type_ids: dict[int, int] = {}  # by the id of a type: to hash one takes longer
        self.fits_class: dict[int, bool] = {}

    def of(self, body: Sequence[Eqn | Guard]) -> list[int]:
        found = []
        for at, step in enumerate(body):
            key = self.guard(step) if isinstance(step, Guard) else self.eqn(step)
            number = self.numbers.setdefault(at if key is None else key, len(self.numbers))
            if isinstance(step, Eqn) and key is not None:
                suits = self.fits_class.get(number)
                if suits is None:
                    suits = self.fits_class[number] = self.fits(step)
                if not suits:
                    number = self.numbers.setdefault(at, len(self.numbers))
            found.append(number)
        return found

    def guard(self, guard: Guard) -> Hashable | None:
        expected = params_key({guard.kind: guard.expected})
        return None if expected is None else (self.atom(guard.operand), expected)

    def eqn(self, eqn: Eqn) -> Hashable:
        frozen: Hashable | None = ()
        if has_variable_index(eqn):
            frozen = eqn.params.get("shape"), *map(_index_outline, eqn.params["index"])
        elif eqn.params:
            frozen = params_key(eqn.params)
        if frozen is None:  # a ufunc, a generator to draw from
            frozen = identity_key(eqn.params)
        return eqn.op, frozen, self.type(eqn.out.type), *map(self.atom, eqn.operands)

    def atom(self, atom: Atom) -> int:
        number = self.type(atom.type)
        return -1 - number if isinstance(atom, Const) else number

    def type(self, type: Type) -> int:
        number = self.type_ids.get(id(type))
        if number is None:
            number = self.type_ids[id(type)] = self.types.setdefault(type, len(self.types))
        return number


def _index_outline(part: Any) -> Hashable:
    """An entry of a basic index without the integers that may differ."""
    return (part.step,) if isinstance(part, slice) else part is None


def _distances(kinds: list[int]) -> list[int]:
    """For each step, how far back the same few steps came last; 0 where they never did."""
    seen = kinds
    for ahead in (1 << k for k in range(_DOUBLINGS)):
        pairs: dict[tuple[int, int], int] = {}
        seen = [
            pairs.setdefault(pair, len(pairs)) for pair in zip(seen, seen[ahead:], strict=False)
        ]
    last: dict[int, int] = {}
    distances = []
    for at, number in enumerate(seen):
        distances.append(at - last.get(number, at))
        last[number] = at
    return distances


def _runs(kinds: list[int], distances: list[int]) -> Iterator[Run]:
    free = 0  # steps before it belong to runs
    at = 0
    allowance = _ALLOWANCE * len(kinds)
    tried: dict[int, int] = {}  # period -> up to where it is known to make no run
    while at < len(distances) and allowance > 0:
        period = distances[at]
        if not period or at - period < free or tried.get(period, 0) > at:
            at += 1
            continue
        end = at
        while end < len(kinds) and kinds[end] == kinds[end - period]:
            end += 1
        start = at - period
        while start > free and kinds[start - 1] == kinds[start - 1 + period]:
            start -= 1
        count = (end - start) // period
        if count < MIN_REPETITIONS or count * period < MIN_STEPS:
            allowance -= end - start
            tried[period] = end
            at += 1
            continue
        yield Run(start, period, count)
        free = at = start + count * period
