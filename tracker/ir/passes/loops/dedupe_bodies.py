"""Bodies of loops and branches that are alike become one.

Owns: the pass `dedupe_bodies`. A Python loop around `cond` or `scan` traces their bodies at each
step: 160 steps leave as many copies of what is one function, each of which would be simplified,
planned and compiled; and steps that refer to other bodies are not alike, so that no loop is made of
them (`reroll.py`).

Two functions are alike if they have the same equations, literals and params in the same order, of
the same types, whatever their variables are called. Invariants: values stay; a body with an opaque
param, which may hold state, is shared with nobody; linear in the equations of bodies.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard
from tracker.ir.passes.manager import as_pass, replace_nested
from tracker.ir.structural_keys import const_key, params_key


@as_pass
def dedupe_bodies(function: Function) -> Function:
    """Have equations whose bodies are alike refer to the first of these."""
    if len(function.functions) < 2:
        return function
    first: dict[Hashable, Function] = {}
    stands: dict[Function, Function] = {}
    for nested in function.functions.values():
        key = _BodyKey().of(nested)
        stands[nested] = nested if key is None else first.setdefault(key, nested)
    kept = {nested.name: nested for nested in stands.values()}
    return function if len(kept) == len(stands) else replace_nested(function, stands, kept)


class _BodyKey:
    """What is the same for functions that are alike."""

    def __init__(self) -> None:
        self.numbers: dict[Atom, int] = {}  # of variables, in the order of their definition

    def of(self, function: Function) -> Hashable | None:
        """None: it is like no other."""
        for var in (*function.inputs, *function.captures):
            self.numbers[var] = len(self.numbers)
        key: list[Hashable] = [len(function.inputs), *(var.type for var in self.numbers)]
        for step in function.body:
            part = self.eqn(step) if isinstance(step, Eqn) else self.guard(step)
            if part is None:
                return None
            key.append(part)
        return (*key, *map(self.atom, function.outputs))

    def eqn(self, eqn: Eqn) -> Hashable | None:
        params = self.params(eqn.params)
        if params is None:
            return None
        operands = tuple(map(self.atom, eqn.operands))
        self.numbers[eqn.out] = len(self.numbers)
        return eqn.op, params, operands, eqn.out.type

    def guard(self, guard: Guard) -> Hashable | None:
        expected = params_key({guard.kind: guard.expected})
        return None if expected is None else (self.atom(guard.operand), expected)

    def atom(self, atom: Atom) -> Hashable:
        return const_key(atom) if isinstance(atom, Const) else self.numbers[atom]

    def params(self, params: dict[str, Any]) -> Hashable | None:
        bodies = {name: x for name, x in params.items() if isinstance(x, Function)}
        inner = [(name, _BodyKey().of(body)) for name, body in bodies.items()]
        others = {name: x for name, x in params.items() if name not in bodies}
        rest = params_key(others)
        if rest is None or any(key is None for _, key in inner):
            return None
        return *inner, rest
