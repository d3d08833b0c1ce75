"""Math functions of long texts: called, where inlining each of many calls takes too long.

An inlined exponential or tangent is 30 to 80 instructions. Inlined, a loop over a few of them runs
a twentieth faster than with calls, and the text of a long program grows threefold.
"""

from __future__ import annotations

import re
from collections import Counter

_MAX_INLINED_LINES = 20_000  # of all calls; code for these takes 0.2 s
_MIN_CALLS = 4  # of a function that is called
_CALL = re.compile(r"call [^@\n]*@(vm\.[\w.]+)\(")
_DEFINITION = re.compile(
    r"^(define internal [^@\n]*@(vm\.[\w.]+)\(.*\)) alwaysinline \{", re.MULTILINE
)


def call_math_of_long_texts(text: str) -> str:
    """The text, with calls of math functions where there are very many."""
    calls = Counter(_CALL.findall(text))
    lines = {match[2]: _line_count(text, match.end()) for match in _DEFINITION.finditer(text)}
    if sum(lines.get(name, 0) * count for name, count in calls.items()) <= _MAX_INLINED_LINES:
        return text

    def called(match: re.Match[str]) -> str:
        if calls[match[2]] < _MIN_CALLS:
            return match[0]
        return f"{match[1]} noinline nounwind willreturn memory(none) {{"

    return _DEFINITION.sub(called, text)


def _line_count(text: str, start: int) -> int:
    """The lines of a function whose body begins here."""
    return text.count("\n", start, text.index("\n}", start))
