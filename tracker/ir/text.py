"""The text form of the IR: one grammar, its printer and its parser.

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

A header, each step, `return` and the closing brace have lines of their own. Start at `parse` and
`print_function`; `Printer` prints single steps for error messages.

Invariants: 1. `parse(print_function(f))` is `f` up to the identity of its variables, constants bit
by bit; 2. printing never fails: a name that the grammar cannot hold is altered, an opaque param
is printed as `<object: its class>`, which does not parse back.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var, name_variables, variables
from tracker.ir.lexer import NAME, Line, Lines
from tracker.ir.literals import print_type, print_value, read_number, read_scalar
from tracker.ir.op import OPS, Op
from tracker.ir.types import DTYPES, PYTHON_DTYPES, Bundle, Type

RESERVED = frozenset(
    {"True", "False", "inf", "nan", "guard", "return", "function", "dtype", "complex", *DTYPES}
)
_is_name = re.compile(NAME).fullmatch
_WEAK = {cls.__name__: Type((), dtype, True) for cls, dtype in PYTHON_DTYPES.items()}
_COMMENT_COLUMN = 44


# ---------------------------------------------------------------------------------------- printer


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


# ----------------------------------------------------------------------------------------- parser


def parse(text: str) -> Function:
    """The function that a text describes; an IRError names the line that does not parse.

    Parameters
    ----------
    text : str
        As `str(function)` gives it.

    Returns
    -------
    Function

    Raises
    ------
    IRError
        Names the line that does not parse.
    """
    lines = Lines(text)
    function = _Parser(lines, lines.next()).function()
    while not lines.is_exhausted:
        lines.next().expect_end()
    return function


class _Parser:
    """Reads one function; nested functions get parsers of their own."""

    def __init__(self, lines: Lines, line: Line) -> None:
        self.lines, self.line = lines, line
        self.vars: dict[str, Var] = {}
        self.functions: dict[str, Function] = {}

    def function(self) -> Function:
        line = self.line
        line.expect("function")
        name = line.expect_kind("name")
        line.expect("(")
        inputs = tuple(line.items(")", self.binder))
        captures: tuple[Var, ...] = ()
        if line.accept("captures"):
            line.expect("(")
            captures = tuple(line.items(")", self.binder))
        line.expect("{")
        line.expect_end()
        body, outputs = self.body()
        return Function(name, inputs, captures, body, outputs, self.functions)

    def body(self) -> tuple[tuple[Eqn | Guard, ...], tuple[Atom, ...]]:
        steps: list[Eqn | Guard] = []
        while True:
            line = self.line = self.lines.next()
            if line.token == "function":
                nested = _Parser(self.lines, line).function()
                if nested.name in self.functions:
                    raise line.error(f"there already is a function {nested.name!r}")
                self.functions[nested.name] = nested
            elif line.accept("return"):
                line.expect("(")
                outputs = tuple(line.items(")", self.atom))
                line.expect_end()
                line = self.lines.next()
                line.expect("}")
                line.expect_end()
                return tuple(steps), outputs
            else:
                steps.append(self.guard() if line.accept("guard") else self.equation())

    def equation(self) -> Eqn:
        line = self.line
        at = line.token
        name, type = line.expect_kind("name"), self.type_after_colon()
        line.expect("=")
        op = self.op()
        operands = []
        while line.kind in ("name", "number") or line.token == "dtype":
            operands.append(self.atom())
        params = dict(line.items("}", self.param)) if line.accept("{") else {}
        return Eqn(op, tuple(operands), params, self.declare(name, type, at), line.where())

    def guard(self) -> Guard:
        line = self.line
        kind = line.expect_kind("name")
        operand = self.atom()
        line.expect("==")
        return Guard(operand, kind, self.value(), line.where())

    def op(self) -> Op:
        name = self.line.token
        found = OPS.get(name)
        if found is None:
            raise self.line.error(f"there is no op {name!r}{_suggestion(name, OPS)}")
        self.line.advance()
        return found

    def binder(self) -> Var:
        name = self.line.expect_kind("name")
        return self.declare(name, self.type_after_colon(), name)

    def declare(self, name: str, type: Type, at: str) -> Var:
        if name in self.vars or name in RESERVED:
            raise self.line.error(f"{at!r} is already defined, or a reserved word")
        var = self.vars[name] = Var(type, name)
        return var

    def type_after_colon(self) -> Type:
        self.line.expect(":")
        return self.type()

    def type(self) -> Type:
        line = self.line
        if line.accept("("):
            return Bundle.of(line.items(")", self.type))
        weak = _WEAK.get(line.token)
        if weak is not None:
            line.advance()
            return weak
        dtype = self.dtype()
        line.expect("[")
        return Type(tuple(line.items("]", lambda: int(line.expect_kind("number")))), dtype)

    def dtype(self) -> np.dtype[Any]:
        line = self.line
        if line.accept("dtype"):
            dtype: np.dtype[Any] = np.dtype(ast.literal_eval(line.expect_kind("string")))
            return dtype
        known = DTYPES.get(line.token)
        if known is None:
            raise line.error(
                f"there is no type {line.token!r}{_suggestion(line.token, [*DTYPES, *_WEAK])}"
            )
        line.advance()
        return known

    def atom(self) -> Atom:
        line = self.line
        var = self.vars.get(line.token)
        if line.kind == "number" or line.token in ("True", "False"):
            return Const.of(self.value())
        if var is not None:
            line.advance()
            return var
        if line.token in DTYPES or line.token in _WEAK:
            return Const.of(self.value())
        raise line.error(f"{line.token!r} is not defined{_suggestion(line.token, self.vars)}")

    def param(self) -> tuple[str, Any]:
        name = self.line.expect_kind("name")
        self.line.expect("=")
        return name, self.value()

    def value(self) -> Any:
        line = self.line
        if line.kind == "number":
            return read_number(line.advance())
        if line.kind == "string":
            return ast.literal_eval(line.advance())
        for word, value in _KEYWORDS.items():
            if line.accept(word):
                return value
        if line.accept("("):
            return tuple(line.items(")", self.value))
        if line.accept("["):
            return line.items("]", self.value)
        if line.accept("@"):
            return self.nested()
        if line.accept("slice"):
            line.expect("(")
            return slice(*line.items(")", self.value))
        if line.accept("complex"):
            line.expect("(")
            return complex(*line.items(")", self.value))
        if line.token == "<":
            raise line.error("an opaque object has no text, so this function cannot be read back")
        return self.scalar_or_dtype()

    def scalar_or_dtype(self) -> Any:
        line = self.line
        dtype = self.dtype()
        if not line.accept("("):
            return dtype
        return read_scalar(dtype, line.items(")", line.advance))

    def nested(self) -> Function:
        name = self.line.token
        if name not in self.functions:
            raise self.line.error(
                f"there is no nested function {name!r}{_suggestion(name, self.functions)}"
            )
        return self.functions[self.line.advance()]


_KEYWORDS = {"True": True, "False": False, "None": None, "...": ...}


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
