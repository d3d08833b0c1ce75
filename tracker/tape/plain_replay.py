"""Replays functions with plain values, many times: the steps of loops while they are traced, and
in calls that wait for machine code.

`plain_replay` gives a callable with the results of `record.replay`. It has one list of registers
instead of a table of variables, and does not look for tracked values: with small arrays, it takes
half the time of `replay`. To make it takes longer than a few replays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, operands_of
from tracker.support.errstate import warn_at_user_line
from tracker.tape.record import GUARD_CONVERSIONS, ReplayDiverged
from tracker.tape.value import NO_PARAMS

_made: WeakKeyDictionary[Function, PlainReplay] = WeakKeyDictionary()
_steps_run = 0


def count_steps_run() -> int:
    """How many steps of functions were replayed by now, those of nested functions included."""
    return _steps_run


def plain_replay(function: Function) -> PlainReplay:
    """A callable of plain values for the inputs and captures of a function."""
    found = _made.get(function)
    if found is None:
        found = _made[function] = PlainReplay(function)
    return found


class PlainReplay:
    """The steps of a function, with the numbers of the registers that they read and write."""

    def __init__(self, function: Function) -> None:
        self.initial: list[Any] = []  # literals, and None
        self.numbers: dict[Atom, int] = {}
        given = [*map(self._register, (*function.inputs, *function.captures))]
        self.given = len(given)
        self.steps = [*map(self._step, function.body)]
        self.outputs = [*map(self._register, function.outputs)]

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        global _steps_run
        assert len(values) == self.given
        _steps_run += len(self.steps)
        registers = self.initial.copy()
        registers[: self.given] = values
        for evaluate, read, params, out, is_real in self.steps:
            operands = read(registers)
            try:
                x = registers[out] = evaluate(*operands, **params)
            except RuntimeWarning as warning:
                x = registers[out] = warn_at_user_line(warning, evaluate, operands, params)
            if is_real and type(x) is complex:
                raise ReplayDiverged  # Python takes the root of a negative number
        return [registers[at] for at in self.outputs]

    def _register(self, atom: Atom) -> int:
        number = self.numbers.get(atom)
        if number is None:
            number = self.numbers[atom] = len(self.initial)
            self.initial.append(atom.value if isinstance(atom, Const) else None)
        return number

    def _step(self, step: Eqn | Guard) -> tuple[Any, ...]:
        read = _reader(list(map(self._register, operands_of(step))))
        if isinstance(step, Guard):
            self.initial.append(None)  # that the guard holds
            return functools.partial(_check, step), read, NO_PARAMS, len(self.initial) - 1, False
        is_real = step.out.type.weak and step.out.type.dtype.kind != "c"
        return step.op.evaluate, read, step.params, self._register(step.out), is_real


def _reader(numbers: list[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """A function that gives the contents of some registers."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return itemgetter(slice(numbers[0], numbers[0] + 1) if numbers else slice(0))


def _check(guard: Guard, operand: Any) -> None:
    if GUARD_CONVERSIONS[guard.kind](operand) != guard.expected:
        raise ReplayDiverged(guard)
