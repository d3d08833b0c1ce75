"""The verifier: the invariants of the IR, checked in one linear sweep.

It runs after every trace, so it is cheap: `infer` is called once per op, types and params. An
IRError shows the offending step among its neighbours.

Checked: 1. inputs, captures and results are distinct variables, defined before they are used; 2. an
op has no fewer operands than rules; 3. a result has the type that `op.infer` gives; 4. a literal is
a scalar with its own type; 5. a guard's operand is one number, and its expected value is a result
of its kind of conversion; 6. outputs are defined; 7. nested functions satisfy the same, and params
refer to no others.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np

from tracker.errors import EVALUATION_ERRORS, IRError
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.literals import print_value
from tracker.ir.structural_keys import params_key
from tracker.ir.text import Printer
from tracker.ir.types import Type, type_of

_CONTEXT_LINES = 5
_GUARD_RESULTS = {  # by kind of guard: what Python's conversion gives
    "bool": (bool,),
    **dict.fromkeys(["int", "floor", "ceil", "round"], (int,)),
    "hash": (bool, int, float, complex),
}
_valid: WeakSet[Function] = WeakSet()  # nested functions that were verified: traces share them
Memo = dict[Hashable, Type]  # by op, params, and the ids of types: to hash one takes longer


def verify(function: Function) -> None:
    """Raise an IRError unless the function satisfies every invariant of the IR.

    Parameters
    ----------
    function : Function
        Nested functions are checked, too.

    Raises
    ------
    IRError
        Names the equation and what is wrong.
    """
    _verify(function, {})


def _verify(function: Function, memo: Memo) -> None:
    for key, nested in function.functions.items():
        if key != nested.name:
            raise IRError(f"the nested function {nested.name!r} is entered as {key!r}")
        if nested not in _valid:
            _verify(nested, memo)
            _valid.add(nested)
    _Verifier(function, memo).check()


class _Verifier:
    """One sweep over one function; `position` is the number of the current step."""

    def __init__(self, function: Function, memo: Memo) -> None:
        self.function = function
        self.memo = memo
        self.defined: set[Var] = set()
        self.position = -1

    def check(self) -> None:
        function, defined = self.function, self.defined
        for var in (*function.inputs, *function.captures):
            if var in defined:
                self.fail(f"{self.name_of(var)} is an input or capture twice")
            defined.add(var)
        for self.position, step in enumerate(function.body):
            if step.__class__ is Eqn:
                self.check_eqn(step)
            elif isinstance(step, Guard):
                self.check_guard(step)
            else:
                self.fail(f"a step is an equation or a guard, not a {type(step).__name__}")
        self.position = len(function.body)
        for output in function.outputs:
            self.check_atom(output)

    def check_eqn(self, eqn: Eqn) -> None:
        defined, types = self.defined, []
        for operand in eqn.operands:
            if operand not in defined:
                self.check_atom(operand)
            types.append(operand.type)
        if eqn.params:
            self.check_nested(eqn.params)
        out = eqn.out
        expected = self.infer(eqn, tuple(types))
        if expected is not out.type and expected != out.type:
            self.fail(
                f"{eqn.op.name} gives {expected}, and {self.name_of(out)} is said to be {out.type}"
            )
        if out in defined:
            self.fail(f"{self.name_of(out)} is defined a second time")
        defined.add(out)

    def infer(self, eqn: Eqn, types: tuple[Type, ...]) -> Type:
        """What `op.infer` gives, cached."""
        frozen = params_key(eqn.params) if eqn.params else ()
        key = (eqn.op, frozen, *map(id, types))  # of types that live as long as the function
        found = self.memo.get(key)
        if found is None:
            found = self.infer_uncached(eqn, types)
            if found == eqn.out.type:
                found = eqn.out.type  # which is mostly the same object for equal types
            if frozen is not None:
                self.memo[key] = found
        return found

    def infer_uncached(self, eqn: Eqn, types: tuple[Type, ...]) -> Type:
        self.check_arity(eqn)
        try:
            return eqn.op.infer(*types, **eqn.params)
        except EVALUATION_ERRORS as error:
            shown = " ".join(map(str, types))
            self.fail(f"{eqn.op.name} does not take ({shown}) with these params: {error}", error)

    def check_arity(self, eqn: Eqn) -> None:
        rules, given = eqn.op.arity or 0, len(eqn.operands)
        if given < rules:  # of too many, `infer` complains
            self.fail(f"{eqn.op.name} takes {rules} operands, and is given {given}")

    def check_nested(self, params: dict[str, Any]) -> None:
        known = self.function.functions
        for value in params.values():
            if isinstance(value, Function) and known.get(value.name) is not value:
                self.fail(f"@{value.name} is not among the nested functions")

    def check_atom(self, atom: Atom) -> None:
        if isinstance(atom, Const):
            self.check_const(atom)
        elif atom not in self.defined:
            self.fail(f"{self.name_of(atom)} is used, and not defined before")

    def check_const(self, const: Const) -> None:
        value = const.value
        if isinstance(value, np.ndarray):
            self.fail("an array cannot be a literal; make it a capture")
        expected = type_of(value)
        if const.type != expected:
            self.fail(f"the literal {print_value(value)} is {expected}, and not {const.type}")

    def check_guard(self, guard: Guard) -> None:
        self.check_atom(guard.operand)
        expected = _GUARD_RESULTS.get(guard.kind)
        if expected is None:
            self.fail(f"a guard is of kind {', '.join(_GUARD_RESULTS)}, not {guard.kind!r}")
        type = guard.operand.type
        if type.size != 1 or type.dtype.kind not in "biufc":
            self.fail(f"a guard looks at one number, not at {type}")
        if guard.expected.__class__ not in expected:
            self.fail(f"a {guard.kind} guard cannot expect {print_value(guard.expected)}")

    def name_of(self, atom: Atom) -> str:
        return Printer(self.function).atom(atom)

    def fail(self, why: str, cause: Exception | None = None) -> NoReturn:
        printer, body = Printer(self.function), self.function.body
        low, high = max(0, self.position - _CONTEXT_LINES), self.position + _CONTEXT_LINES + 1
        lines = [f"{why}, in", f"  {printer.header()}"]
        if low > 0:
            lines.append("    ...")
        for k, step in enumerate(body[low:high], low):
            shown = printer.step(step) if isinstance(step, (Eqn, Guard)) else repr(step)
            lines.append(f"{'->' if k == self.position else '  '}  {shown}")
        if high < len(body):
            lines.append("    ...")
        else:
            outputs = ", ".join(map(printer.atom, self.function.outputs))
            lines.append(f"{'->' if self.position == len(body) else '  '}  return ({outputs})")
        raise IRError("\n".join(lines)) from cause
