"""The lexer of IR text (`text.py`): lines, and a cursor over the tokens of one line.

Invariant: every failure is an IRError that shows the line, its number, and the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tracker.errors import IRError

NAME = r"(?:[^\W\d]|<\w+>)(?:[\w.]|<\w+>)*"

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
