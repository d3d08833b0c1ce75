"""A hash of an IR function that is the same in every process.

It covers what decides the results and the machine code: ops, operands, params, literals bit by bit,
types and guards. It does not cover names of variables and functions, nor source lines.

Invariant: functions with equal fingerprints are equal up to the identity of their variables. A
function with an op that is not declared, or with an opaque param, has no fingerprint.
"""

from __future__ import annotations

import hashlib
import marshal
from typing import Any
from weakref import WeakKeyDictionary

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.op import OPS
from tracker.ir.structural_keys import Opaque, dtype_key, value_key
from tracker.ir.types import Bundle, Type

_NO_REFERENCES = 2  # marshal's last format in which equal values are equal bytes

_known: WeakKeyDictionary[Function, str | None] = WeakKeyDictionary()


def fingerprint(function: Function) -> str | None:
    """The hash in hexadecimal, or None (see the header)."""
    if function not in _known:
        _known[function] = _computed(function)
    return _known[function]


def _computed(function: Function) -> str | None:
    try:
        spelled = marshal.dumps(_Encoder(function).spelled(), _NO_REFERENCES)
    except (Opaque, ValueError):  # no name in other processes; a part that cannot be written
        return None
    return hashlib.sha256(spelled).hexdigest()


def located_fingerprint(function: Function) -> tuple[Any, ...] | None:
    """The hash and the source lines of the steps, which errors and `explain` name, or None."""
    mark = fingerprint(function)
    return None if mark is None else (mark, *[step.where for step in function.body])


class _Encoder:
    """Encodes a function as a value that `marshal` writes.

    Types and nested functions are numbered in order of appearance; types are spelled out where they
    first appear.
    """

    def __init__(self, function: Function) -> None:
        self.given = function
        self.types: dict[Type, int] = {}
        self.nested = {nested: at for at, nested in enumerate(function.functions.values())}

    def spelled(self) -> Any:
        function = self.given
        nested = [fingerprint(each) for each in self.nested]
        if None in nested:
            raise Opaque
        arriving = (*function.inputs, *function.captures)
        numbers: dict[Any, int] = {var: at for at, var in enumerate(arriving)}
        head = (len(function.inputs), [self.type(var.type) for var in arriving])
        body = []
        for step in function.body:
            if isinstance(step, Guard):
                operand = self.atom(step.operand, numbers)
                body.append((step.kind, operand, self.value(step.expected)))
            else:
                body.append(self.eqn(step, numbers))
                numbers[step.out] = len(numbers)
        outputs = [self.atom(atom, numbers) for atom in function.outputs]
        return nested, head, body, outputs

    def eqn(self, eqn: Eqn, numbers: dict[Any, int]) -> Any:
        op = eqn.op
        if OPS.get(op.name) is not op:
            raise Opaque
        operands = [numbers[o] if o.__class__ is Var else self.literal(o) for o in eqn.operands]
        params = [(name, self.value(x)) for name, x in eqn.params.items()]
        return op.name, operands, params, self.type(eqn.out.type)

    def atom(self, atom: Atom, numbers: dict[Any, int]) -> Any:
        return numbers[atom] if isinstance(atom, Var) else self.literal(atom)

    def literal(self, const: Any) -> Any:
        return self.type(const.type), self.value(const.value)

    def type(self, type: Type) -> Any:
        known = self.types.get(type)
        if known is None:
            known = self.types[type] = len(self.types)
            if isinstance(type, Bundle):
                return known, [self.type(part) for part in type.parts]
            return known, type.shape, dtype_key(type.dtype), type.weak
        return known

    def value(self, x: Any) -> Any:
        return ("function", self.nested[x]) if x.__class__ is Function else value_key(x)
