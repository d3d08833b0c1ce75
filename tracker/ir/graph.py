"""The IR: typed SSA equations in functions.

Owns: `Var`, `Const`, `Eqn`, `Guard`, `Function`. An operand is a `Var`, or a Python/NumPy scalar
wrapped in `Const` (arrays are never literals: staging hoists them to inputs). Start at `Function`.

Invariants (checked by `verify.py`): every variable is defined once, before its uses; types agree
with `op.infer`; equations are immutable.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar

from tracker.ir.lowering import Branch, Host, Loop, Routine, While
from tracker.ir.op import Op, has_effect
from tracker.ir.types import Type, type_of
from tracker.support.structs import field, record


class Var:
    """One SSA value. Identity is what matters; `name` is for people."""

    __slots__ = ("name", "type")

    def __init__(self, type: Type, name: str = "") -> None:
        self.type = type
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name or 'v'}: {self.type}"


@record(frozen=True, eq=False)
class Const:
    """A scalar literal: a Python number or a NumPy scalar."""

    value: Any
    type: Type

    @staticmethod
    def of(value: Any) -> Const:
        return Const(value, type_of(value))


Atom = Var | Const


@record(frozen=True, eq=False)
class Eqn:
    """out = op(*operands, **params), written at `where` (the user's `file:line`)."""

    op: Op
    operands: tuple[Atom, ...]
    params: dict[str, Any]
    out: Var
    where: str = ""


@record(frozen=True, eq=False)
class Guard:
    """The function holds only while `kind(operand) == expected`; it stands between equations.

    kind: which Python conversion the user's code made of the value: bool, int, floor, ceil, round,
    hash.
    """

    operand: Atom
    kind: str
    expected: Any
    where: str = ""


@record(eq=False, slots=False)
class Function:
    """A straight line of equations and guards.

    inputs: the leaves of the arguments; captures: arrays the code reached from outside, passed
    by reference; outputs: atoms, in the order of the result's leaves. `functions` holds nested
    functions (loop bodies, branches, mapped bodies, calls) by name; an equation's params refer
    to them (a param holds the `Function` itself).
    """

    name: str
    inputs: tuple[Var, ...]
    captures: tuple[Var, ...]
    body: tuple[Eqn | Guard, ...]
    outputs: tuple[Atom, ...]
    functions: dict[str, Function] = field(default_factory=dict)
    printer: ClassVar[Callable[[Function], str]]  # set by text.py, which owns the grammar

    @property
    def eqns(self) -> Iterator[Eqn]:
        return (step for step in self.body if isinstance(step, Eqn))

    @cached_property
    def ops(self) -> frozenset[Op]:
        """The ops of its own equations: most passes are over when they have seen these."""
        return frozenset([step.op for step in self.body if isinstance(step, Eqn)])

    @cached_property
    def calls_python(self) -> bool:
        """Whether Python runs some of it, or of its nested functions."""
        nested = any(function.calls_python for function in self.functions.values())
        return nested or any(isinstance(op.lower, Host) for op in self.ops)

    @cached_property
    def has_side_effects(self) -> bool:
        """Whether running it, or one of its nested functions, does more than giving results."""
        nested = any(function.has_side_effects for function in self.functions.values())
        return nested or any(map(has_effect, self.ops))

    def has_op(self, *names: str) -> bool:
        """Whether there is an equation of an op with one of these names."""
        return any(op.name in names for op in self.ops)

    @property
    def uses(self) -> Counter[Atom]:
        """How often each atom is read; outputs are, once each."""
        read = [step.operands if isinstance(step, Eqn) else (step.operand,) for step in self.body]
        return Counter(itertools.chain(self.outputs, itertools.chain.from_iterable(read)))

    def __str__(self) -> str:
        return Function.printer(self)


Readers = dict[Atom, list[Eqn | None]]


def nested_functions(body: Iterable[Eqn | Guard]) -> dict[str, Function]:
    """The functions that the params of equations refer to, by name."""
    return {
        value.name: value
        for step in body
        if isinstance(step, Eqn)
        for value in step.params.values()
        if isinstance(value, Function)
    }


def readers_of(function: Function) -> Readers:
    """The equations that read each atom; None stands for a guard, or the outputs."""
    readers: Readers = {}
    for step in function.body:
        for atom in operands_of(step):
            readers.setdefault(atom, []).append(step if isinstance(step, Eqn) else None)
    for atom in function.outputs:
        readers.setdefault(atom, []).append(None)
    return readers


def operands_of(step: Eqn | Guard) -> tuple[Atom, ...]:
    """What a step reads."""
    return step.operands if isinstance(step, Eqn) else (step.operand,)


def may_bail_out(eqn: Eqn) -> bool:
    """Whether machine code checks something here: Python's arithmetic can raise."""
    return eqn.out.type.weak or isinstance(eqn.op.lower, (Loop, While, Branch, Routine))


def calls_python(eqn: Eqn) -> bool:
    """Whether Python runs an equation, or one in a body of it."""
    return isinstance(eqn.op.lower, Host) or any(body.calls_python for body in _control_bodies(eqn))


def has_side_effects(eqn: Eqn) -> bool:
    """Whether running an equation, or one in a body of it, does more than giving its result."""
    return has_effect(eqn.op) or any(body.has_side_effects for body in _control_bodies(eqn))


def _control_bodies(eqn: Eqn) -> Iterable[Function]:
    """Those of a loop or a branch."""
    control = isinstance(eqn.op.lower, (Loop, While, Branch))
    return nested_functions((eqn,)).values() if control else ()


def name_variables(function: Function) -> None:
    """Give every unnamed variable a short name: a, b, ..., z, a1, b1, ..."""
    every = [*variables(function)]
    taken = {v.name for v in every}
    fresh = (n for n in _fresh_names() if n not in taken)
    for v in every:
        if not v.name:
            v.name = next(fresh)


def variables(function: Function) -> Iterator[Var]:
    """Every variable, in order of definition."""
    yield from function.inputs
    yield from function.captures
    yield from [step.out for step in function.body if isinstance(step, Eqn)]


def _fresh_names() -> Iterator[str]:
    k = 0
    while True:
        for letter in "abcdefghijklmnopqrstuvwxyz":
            yield letter if k == 0 else f"{letter}{k}"
        k += 1
