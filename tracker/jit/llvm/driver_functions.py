"""How functions that call kernels are compiled: the entry, the plan, bodies of control flow.

They run once in a call, or once in an iteration of a Python loop. Their own loops are in memory,
not in phis, and none of LLVM's loop passes is needed for them. Bodies that compute a few numbers
and call nothing are no drivers; what loops over one is a driver, but worth optimising if short.
"""

from __future__ import annotations

import re

from tracker.jit.llvm.text_writer import function_spans

_MAX_OPTIMISED_LINES = 300
_DRIVER = re.compile(r"^(define (?:internal )?\w+ @(entry|plan|body\d+)\([^)]*\)) ", re.MULTILINE)
_CALLED_BODY = re.compile(r"call i64 @(body\d+)\(")
_CALL_FOR_EFFECT = re.compile(r"call (?:void|ptr|i\d+) @")
_BODY = re.compile(r"^(define internal i64 (@body\d+\()[^)]*\)) \{", re.MULTILINE)


def is_driver(text: str, at: int = 0) -> bool:
    """Whether the function at this position calls kernels."""
    return _DRIVER.match(text, at) is not None


def without_optimising_drivers(text: str) -> str:
    """The text, in which drivers are compiled quickly at any level, but for loops over numbers."""
    spans = {m[2]: span for span in function_spans(text) if (m := _DRIVER.match(text, span[0]))}
    short = {
        name: text[start:end]
        for name, (start, end) in spans.items()
        if text.count("\n", start, end) <= _MAX_OPTIMISED_LINES
    }
    numeric = {
        name
        for name, body in short.items()
        if name.startswith("body") and not _CALL_FOR_EFFECT.search(body)
    }

    def compiled(match: re.Match[str]) -> str:
        if match[2] in numeric:
            return f"{match[1]} alwaysinline "
        loops_over = _CALLED_BODY.findall(short.get(match[2], ""))
        return match[0] if numeric.intersection(loops_over) else f"{match[1]} optnone noinline "

    return _DRIVER.sub(compiled, text)


def inline_bodies(text: str) -> str:
    """The text, in which bodies with one caller are inlined, so that what a loop hands to its body
    stays in registers."""

    def inlined(match: re.Match[str]) -> str:
        is_called_once = text.count(f"call i64 {match[2]}") == 1
        return f"{match[1]}{' alwaysinline' if is_called_once else ''} {{"

    return _BODY.sub(inlined, text)
