"""The IR's data: variables, literals, equations, guards and functions.

An operand is a `Var`, or a Python or NumPy scalar in a `Const`; arrays are never literals, tracing
makes them inputs. Start at `Function`.

Invariants (see `verify.py`): every variable is defined once, before its uses; types agree with
`op.infer`; equations are immutable.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar

from tracker.ir.lowering import Branch, Host, Loop, Routine, While
from tracker.ir.op import Op, has_effect
from tracker.ir.types import Type, type_of
from tracker.support.structs import field, field_names, record


class Var:
    """One SSA value, compared by identity; `name` is for the text form."""

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
    """An equation `out = op(*operands, **params)`; `where` is the `file:line` of user code."""

    op: Op
    operands: tuple[Atom, ...]
    params: dict[str, Any]
    out: Var
    where: str = ""


@record(frozen=True, eq=False)
class Guard:
    """The function is valid only while `kind(operand) == expected`; checked between equations.

    kind: the Python conversion that the user's code made: bool, int, floor, ceil, round or hash.
    """

    operand: Atom
    kind: str
    expected: Any
    where: str = ""


@record(eq=False, slots=False)
class Function:
    """A straight line of equations and guards.

    inputs: the leaves of the arguments; captures: arrays that the code reached from outside, passed
    by reference; outputs: atoms, in the order of the result's leaves; functions: the nested
    functions (bodies of loops and branches) by name, which params of equations hold.
    """

    name: str
    inputs: tuple[Var, ...]
    captures: tuple[Var, ...]
    body: tuple[Eqn | Guard, ...]
    outputs: tuple[Atom, ...]
    functions: dict[str, Function] = field(default_factory=dict)
    printer: ClassVar[Callable[[Function], str]]  # set by `text.py`

    @property
    def eqns(self) -> Iterator[Eqn]:
        return (step for step in self.body if isinstance(step, Eqn))

    @cached_property
    def ops(self) -> frozenset[Op]:
        """The ops of the body without nested functions; many passes need to read only these."""
        return frozenset([step.op for step in self.body if isinstance(step, Eqn)])

    @cached_property
    def text_length(self) -> int:
        """The steps of the body and of nested functions, each once."""
        nested = self.functions.values()
        return len(self.body) + sum([function.text_length for function in nested])

    @cached_property
    def calls_python(self) -> bool:
        """Whether an equation, or one in a nested function, is run by Python."""
        nested = any(function.calls_python for function in self.functions.values())
        return nested or any(isinstance(op.lower, Host) for op in self.ops)

    @cached_property
    def has_side_effects(self) -> bool:
        """Whether an equation, or one in a nested function, has side effects."""
        nested = any(function.has_side_effects for function in self.functions.values())
        return nested or any(map(has_effect, self.ops))

    def has_op(self, *names: str) -> bool:
        """Whether there is an equation of an op with one of these names."""
        return any(op.name in names for op in self.ops)

    @property
    def uses(self) -> Counter[Atom]:
        """How often each atom is read; an output counts once."""
        read = [step.operands if isinstance(step, Eqn) else (step.operand,) for step in self.body]
        return Counter(itertools.chain(self.outputs, itertools.chain.from_iterable(read)))

    def __str__(self) -> str:
        return Function.printer(self)

    __repr__ = __str__


class DrawnFunction(Function):
    """A function that notebooks show as a picture, if it is not too large."""

    drawer: ClassVar[Callable[[Function], str | None]]  # set by `tracker/__init__.py`

    @staticmethod
    def of(function: Function) -> DrawnFunction:
        return DrawnFunction(**{name: getattr(function, name) for name in field_names(Function)})

    def _repr_svg_(self) -> str | None:
        return DrawnFunction.drawer(self)


Readers = dict[Atom, list[Eqn | None]]


def nested_functions(body: Iterable[Eqn | Guard]) -> dict[str, Function]:
    """The functions in the params of equations, by name."""
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
    """The atoms that a step reads."""
    return step.operands if isinstance(step, Eqn) else (step.operand,)


def may_bail_out(eqn: Eqn) -> bool:
    """Whether machine code may stop at this equation, for Python to go on (which may raise)."""
    return eqn.out.type.weak or isinstance(eqn.op.lower, (Loop, While, Branch, Routine))


def calls_python(eqn: Eqn) -> bool:
    """Whether Python runs an equation, or one in a body of it."""
    return isinstance(eqn.op.lower, Host) or any(body.calls_python for body in _control_bodies(eqn))


def has_side_effects(eqn: Eqn) -> bool:
    """Whether an equation, or one in a body of it, does more than give its result."""
    return has_effect(eqn.op) or any(body.has_side_effects for body in _control_bodies(eqn))


def _control_bodies(eqn: Eqn) -> Iterable[Function]:
    control = isinstance(eqn.op.lower, (Loop, While, Branch))
    return nested_functions((eqn,)).values() if control else ()


def name_variables(function: Function) -> None:
    """Give every unnamed variable a short name: a, b, ..., z, a1, b1, ..."""
    all_variables = [*variables(function)]
    taken = {v.name for v in all_variables}
    fresh = (n for n in _fresh_names() if n not in taken)
    for v in all_variables:
        if not v.name:
            v.name = next(fresh)


def unused_name(stem: str, taken: Container[str]) -> str:
    """The first of stem1, stem2, ... that is not taken."""
    return next(name for k in itertools.count(1) if (name := f"{stem}{k}") not in taken)


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
