"""Reads the text of the IR (`tracker/ir/text.py` has the grammar) for tests of passes.

Invariant: every failure is an IRError that shows the line, its number, and the column.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tracker.errors import IRError
from tracker.ir.graph import Atom, Const, Eqn, Function, Guard, Var
from tracker.ir.op import OPS, Op
from tracker.ir.text import NAME, RESERVED
from tracker.ir.types import DTYPES, PYTHON_DTYPES, Bundle, Type

_WEAK = {cls.__name__: Type((), dtype, True) for cls, dtype in PYTHON_DTYPES.items()}
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<number> -?(?: (?:inf|nan(?::[0-9a-f]+)?)(?![\w.]) | \d[\d.]*(?:e[+-]?\d+)? ))
    | (?P<name> {NAME})
    | (?P<string> '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<mark> \.\.\. | == | \# | [^\s\w])
    | (?P<end> $))""",
    re.VERBOSE,
)


class Lines:
    """The lines of a text that are not blank, one `Line` at a time."""

    def __init__(self, text: str) -> None:
        numbered = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        self._lines = numbered[::-1]
        self._last = numbered[-1] if numbered else (1, "")

    @property
    def is_exhausted(self) -> bool:
        return not self._lines

    def next(self) -> Line:
        if not self._lines:
            raise Line(*self._last).error("the text ends before the function does")
        return Line(*self._lines.pop())


class Line:
    """A cursor over the tokens of one line; `kind` and `token` are those of the next token."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text
        self.kind = self.token = ""
        self._after = 0
        self.advance()

    def advance(self) -> str:
        """Consume the next token and return it."""
        token = self.token
        match = _TOKEN.match(self.text, self._after)
        assert match is not None and match.lastgroup is not None
        self.kind, self.token = match.lastgroup, match[match.lastgroup]
        self._after = match.end()
        return token

    def accept(self, token: str) -> bool:
        found = self.token == token and self.kind != "string"
        if found:
            self.advance()
        return found

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected {token!r}, found {self.token or 'the end of the line'!r}")

    def expect_kind(self, kind: str) -> str:
        if self.kind != kind:
            raise self.error(f"expected a {kind}, found {self.token or 'the end of the line'!r}")
        return self.advance()

    def where(self) -> str:
        """The comment that ends the line, if any."""
        if self.kind == "mark" and self.token == "#":
            return self.text[self._after :].removeprefix(" ")
        self.expect_end()
        return ""

    def expect_end(self) -> None:
        if self.kind != "end":
            raise self.error(f"expected the end of the line, found {self.token!r}")

    def items(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """The items between brackets, separated by commas; a comma after the last is allowed."""
        found = []
        while not self.accept(close):
            found.append(item())
            if not self.accept(","):
                self.expect(close)
                break
        return found

    def error(self, why: str) -> IRError:
        column = self._after - len(self.token)
        return IRError(f"line {self.number}: {why}\n    {self.text}\n    {' ' * column}^")


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


def read_number(text: str) -> int | float:
    if text.startswith("nan:"):
        return float(read_scalar(np.dtype(np.float64), [text]))
    return int(text) if text.lstrip("-").isdigit() else float(text)


def read_scalar(dtype: np.dtype[Any], texts: list[str]) -> Any:
    if dtype.kind == "b":
        return np.bool_(texts == ["True"])
    if dtype.kind != "c":
        return _numpy_real(dtype, texts[0])
    pair = np.zeros((), dtype)
    pair.real, pair.imag = (_numpy_real(pair.real.dtype, text) for text in texts)
    return pair[()]


def _numpy_real(dtype: np.dtype[Any], text: str) -> Any:
    if text.startswith("nan:"):
        return np.frombuffer(bytes.fromhex(text[4:]).ljust(dtype.itemsize, b"\0"), dtype)[0]
    return dtype.type(text)
