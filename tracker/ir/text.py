"""The text form of the IR: its grammar, and the printer.

    function = "function" NAME "(" [binders] ")" ["captures" "(" binders ")"] "{"
               {function} {equation | guard} "return" "(" [atom {"," atom}] ")" "}"
    binders  = NAME ":" type {"," NAME ":" type}
    equation = NAME ":" type "=" NAME {atom} ["{" NAME "=" value {"," NAME "=" value} "}"] [where]
    guard    = "guard" NAME atom "==" value [where]
    where    = "# " anything up to the end of the line, usually the user's file:line
    type     = "float" | "int" | "complex" | dtype "[" [INT {"," INT}] "]"
             | "(" [type {"," type}] ")"                a bundle
    atom     = NAME | scalar
    scalar   = "True" | "False" | number                     Python's own
             | "complex" "(" number "," number ")"
             | dtype "(" scalar ["," scalar] ")"             a NumPy scalar
    number   = an integer, or what `repr(float)` writes, or "nan:" hex bytes (an unusual NaN)
    value    = scalar | "None" | "..." | STRING | dtype | "@" NAME (a nested function)
             | "(" [value {"," value}] ")" | "[" ... "]" | "slice" "(" value "," value "," value ")"
    dtype    = "f64", ..., or NumPy's own string in quotes after "dtype": dtype'<M8[s]'

A header, each step, `return` and the closing brace have lines of their own. Start at
`print_function`; `Printer` prints single steps for error messages. What reads such a text is in
the tests.

Invariants: 1. a function that is read back is the same up to the identity of its variables,
constants bit by bit; 2. printing never fails: a name that the grammar cannot hold is altered, an
opaque param is printed as `<object: its class>`, which cannot be read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var, name_variables, variables
from tracker.ir.literals import print_type, print_value
from tracker.ir.types import DTYPES, Type

RESERVED = frozenset(
    {"True", "False", "inf", "nan", "guard", "return", "function", "dtype", "complex", *DTYPES}
)
NAME = r"(?:[^\W\d]|<\w+>)(?:[\w.]|<\w+>)*"
_is_name = re.compile(NAME).fullmatch
_COMMENT_COLUMN = 44


def print_function(function: Function) -> str:
    """The text of a function; unnamed variables are given names."""
    lines: list[str] = []
    _print(function, "", lines)
    return "\n".join(lines)


def _print(function: Function, indent: str, lines: list[str]) -> None:
    printer = Printer(function)
    lines.append(f"{indent}{printer.header()} {{")
    inner = indent + "  "
    for nested in function.functions.values():
        _print(nested, inner, lines)
    lines.extend([inner + printer.step(step) for step in function.body])
    lines.append(f"{inner}return ({', '.join(map(printer.atom, function.outputs))})")
    lines.append(indent + "}")


class Printer:
    """Prints the parts of one function; holds the names of its variables and nested functions."""

    def __init__(self, function: Function) -> None:
        name_variables(function)
        self.function = function
        self.names = _unique_names(variables(function))
        self.functions = {nested: _legal_name(key) for key, nested in function.functions.items()}
        self.types: dict[Type, str] = {}

    def header(self) -> str:
        function = self.function
        text = f"function {_legal_name(function.name)}({self._binders(function.inputs)})"
        if function.captures:
            text += f" captures ({self._binders(function.captures)})"
        return text

    def step(self, step: Eqn | Guard) -> str:
        text = self._eqn(step) if isinstance(step, Eqn) else self._guard(step)
        if not step.where:
            return text
        where = step.where.replace("\n", " ")
        return f"{text:<{_COMMENT_COLUMN}}  # {where}"

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Var):
            return self.names.get(atom) or _legal_name(atom.name)
        return print_value(atom.value)

    def _eqn(self, eqn: Eqn) -> str:
        parts = [self._binder(eqn.out), "=", eqn.op.name, *map(self.atom, eqn.operands)]
        if eqn.params:
            params = [f"{name}={self._value(value)}" for name, value in eqn.params.items()]
            parts.append(f"{{{', '.join(params)}}}")
        return " ".join(parts)

    def _guard(self, guard: Guard) -> str:
        expected = print_value(guard.expected)
        return f"guard {guard.kind} {self.atom(guard.operand)} == {expected}"

    def _binders(self, variables: Iterable[Var]) -> str:
        return ", ".join(map(self._binder, variables))

    def _binder(self, var: Var) -> str:
        type = self.types.get(var.type)
        if type is None:
            type = self.types[var.type] = print_type(var.type)
        return f"{self.atom(var)}: {type}"

    def _value(self, value: Any) -> str:
        return print_value(value, self.functions)


def _unique_names(variables: Iterable[Var]) -> dict[Var, str]:
    """Distinct names that the grammar can hold; nearly always the variables' own."""
    names: dict[Var, str] = {}
    taken: set[str] = set()
    for var in dict.fromkeys(variables):
        name = _legal_name(var.name)
        stem, k = name, 0
        while name in taken:
            k += 1
            name = f"{stem}_{k}"
        taken.add(name)
        names[var] = name
    return names


def _legal_name(name: str) -> str:
    if name.isidentifier() and name not in RESERVED:
        return name
    if name in RESERVED or not name:
        return name + "_"
    if _is_name(name):
        return name
    name = re.sub(r"[^\w.]", "_", name)
    return name if _is_name(name) else "_" + name


Function.printer = print_function
