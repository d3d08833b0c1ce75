"""Numbers of an iteration that depend on nothing but plain numbers: counters, `t += dt`, `2 * i`.

In the plain loop they are Python's. `ConstantValues.after` computes what they are after the loop as
Python does, so that a name holds the same number afterwards, to the last bit. Where Python may
raise an exception (`1 / (9 - i)`) or give a number of another type (`2**-i`), the numbers of all
iterations are computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.control.python_loops.body.iteration_body import Carry, Iteration
from tracker.ir.op import has_effect
from tracker.ops.elementwise.comparison import equal, not_equal
from tracker.tape.tracing.loop_index import Affine, LoopVariable, affine_form
from tracker.tape.value import CLOSED, Value

_MAX_INTEGER = 1 << 62
_PLAIN = (bool, int, float, complex)
_DIVISIONS = ("divide", "floor_divide", "remainder")


class ConstantValues:
    """The values of an iteration that depend on symbols and on the plain numbers that `starts`
    stand for alone.

    doubtful     of Python's numbers alone, those that are not known to be numbers of their type in
                 every iteration
    differences  tests of affine numbers for equality -> by how much they differ
    """

    def __init__(self, iteration: Iteration, starts: Iterable[Value]) -> None:
        self.symbols = iteration.symbols
        self.values = {symbol.value for symbol in iteration.symbols} | set(starts)
        self.equations: list[Value] = []
        for value, _, _ in iteration.equations:
            if self._is_constant(value):
                self.values.add(value)
                self.equations.append(value)
        self.doubtful = [value for value, _, _ in iteration.equations if _is_doubtful(value)]
        self.differences: dict[Value, Affine] = {}
        for value, _, _ in iteration.equations:
            if value.op in (equal, not_equal):
                a, b = map(affine_form, value.operands)
                self.differences.update({value: a.minus(b)} if a and b else {})

    def _is_constant(self, value: Value) -> bool:
        if not isinstance(value.aval, (int, float, complex, np.number)) or has_effect(value.op):
            return False
        found = [o for o in value.operands if type(o) is Value]
        others = (o for o in value.operands if type(o) is not Value)
        return (
            bool(found)
            and all(o in self.values for o in found)
            and all(isinstance(o, (int, float, complex, np.number)) for o in others)
        )

    def after(
        self, count: int, carries: Sequence[Carry], wanted: Iterable[Value] = ()
    ) -> tuple[list[Any], dict[Value, list[Any]]]:
        """What carries are after so many iterations, as plain numbers (None for those that are
        none), and the wanted values that are plain numbers, in each iteration. What is doubtful is
        computed, too, and may raise what Python does."""
        plain, known = self._plain(carries)
        if not known.issuperset(self.doubtful):
            raise NotRollable("Python may raise an exception for a number")
        found: dict[Value, list[Any]] = {value: [] for value in wanted if value in known}
        if not (any(plain) or found or self.doubtful):
            return [None] * len(carries), {}
        chosen = [c for c, p in zip(carries, plain, strict=True) if p]
        now = {c.start: c.origin for c in chosen}
        iterations = self._iterations(chosen, [*found, *self.doubtful])
        for table, now in itertools.islice(iterations, count):  # noqa: B007
            for value, numbers in found.items():
                numbers.append(table[value])
        after = [now[c.start] if p else None for c, p in zip(carries, plain, strict=True)]
        return after, found

    def divisors(self) -> list[Value]:
        """What the doubtful equations divide by; raises if some are no divisions."""
        found = [value.operands[1] for value in self.doubtful if value.op.name in _DIVISIONS]
        if len(found) < len(self.doubtful) or any(type(x) is not Value for x in found):
            raise NotRollable("Python may raise an exception for a number")
        return found

    def count_alike(
        self, count: int, carries: Sequence[Carry], outcomes: Mapping[Value, bool]
    ) -> int | None:
        """How many iterations, of so many, give these values the same truth; None if they are not
        plain numbers in every iteration."""
        plain, known = self._plain(carries)
        if not known.issuperset(outcomes):
            return None
        chosen = [c for c, p in zip(carries, plain, strict=True) if p]
        iterations = itertools.islice(self._iterations(chosen, outcomes), count)
        for at, (table, _) in enumerate(iterations):
            if any(bool(table[value]) != outcome for value, outcome in outcomes.items()):
                return at
        return count

    def are_equal_at_first(self, outcomes: Mapping[Value, bool], variable: LoopVariable) -> bool:
        """Whether one of these values tests numbers that are equal in the first iteration alone."""
        found = [self.differences[x] for x in outcomes if x in self.differences]
        return any(x.factor(variable) and x.at_start(variable) == Affine(0) for x in found)

    def others_at_end(self, outcomes: Mapping[Value, bool], variable: LoopVariable) -> int | None:
        """How many iterations at the end, none or one, may give these values another truth, if they
        are tests of numbers that are not equal before; None if they are not."""
        count = 0
        for value, outcome in outcomes.items():
            difference = self.differences.get(value)
            if difference is None or outcome != (value.op is not_equal):
                return None
            if difference.low <= 0 <= difference.high:
                factor = difference.factor(variable)
                last = difference.at_start(variable).plus(variable.last.times(factor))
                if not factor or last != Affine(0):
                    return None
                count = 1
        return count

    def _iterations(
        self, carries: Sequence[Carry], wanted: Iterable[Value]
    ) -> Iterator[tuple[dict[Value, Any], dict[Value, Any]]]:
        """The wanted values in each iteration, and what carries, all plain, are after it."""
        needed = self._needed([*(c.end for c in carries), *wanted])
        now = {c.start: c.origin for c in carries}
        constant = {value: value.data for value in self.values if value not in self.equations}
        for at in itertools.count():
            table = {**constant, **now}
            table.update({s.value: s.first + at * s.step for s in self.symbols})

            def read(x: Any, table: dict[Value, Any] = table) -> Any:
                return table[x] if type(x) is Value else x

            for value in needed:
                x = value.op.evaluate(*map(read, value.operands), **value.params)
                if type(x) is not type(value.aval):
                    raise NotRollable("a number changes its type")
                if type(x) is int and abs(x) > _MAX_INTEGER:
                    raise NotRollable("an integer outgrows 64 bits")
                table[value] = x
            now = {c.start: read(c.end) for c in carries}
            yield table, now

    def _plain(self, carries: Sequence[Carry]) -> tuple[list[bool], set[Value]]:
        """Which carries, and which values, are plain numbers in every iteration."""
        plain = [c.start in self.values for c in carries]
        while True:
            others = {c.start for c, p in zip(carries, plain, strict=True) if not p}
            known = self._independent_of(others)
            now = [
                p and (type(c.end) is not Value or c.end in known)
                for c, p in zip(carries, plain, strict=True)
            ]
            if now == plain:
                return now, known
            plain = now

    def _independent_of(self, others: Container[Value]) -> set[Value]:
        """The values that no equation computes from one of these."""
        varying = {value for value in self.values if value in others}
        for value in self.equations:
            if not varying.isdisjoint(o for o in value.operands if type(o) is Value):
                varying.add(value)
        return self.values - varying

    def _needed(self, ends: Sequence[Any]) -> list[Value]:
        found: set[Value] = set()
        stack = list(ends)
        while stack:
            value = stack.pop()
            if type(value) is Value and value not in found:
                found.add(value)
                stack.extend(value.operands)
        return [value for value in self.equations if value in found]


def _is_doubtful(value: Value) -> bool:
    """Whether Python may raise an exception for an equation of its numbers, or give a number of
    another type."""
    name = getattr(value.op, "name", None)
    if name not in (*_DIVISIONS, "power", "left_shift", "right_shift") or not _is_plain(value):
        return False
    right = value.operands[1]
    if type(right) is not Value and name in _DIVISIONS:
        return not right
    form = affine_form(right)
    if form is None:
        return True
    if name in _DIVISIONS:
        return form.low <= 0 <= form.high
    return form.low < 0


def _is_plain(value: Value) -> bool:
    """Whether a number is made of Python's numbers alone."""
    seen, stack = set[Value](), [value]
    while stack:
        x: Any = stack.pop()
        if type(x) is not Value:
            if type(x) not in _PLAIN:
                return False
        elif x not in seen:
            seen.add(x)
            if type(x.aval) not in _PLAIN or not (x.op is CLOSED or x.operands):
                return False
            stack += x.operands
    return True
