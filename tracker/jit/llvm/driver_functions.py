"""How functions that call kernels are compiled: the entry, the plan, bodies of control flow.

They run once in a call, or once in an iteration of a Python loop. Their own loops are in memory,
not in phis, and none of LLVM's loop passes is needed for them.
"""

from __future__ import annotations

import re

_DRIVER = re.compile(r"^(define (?:internal )?\w+ @(?:entry|plan|body\d+)\([^)]*\)) ", re.MULTILINE)
_BODY = re.compile(r"^(define internal i64 (@body\d+\()[^)]*\)) \{", re.MULTILINE)


def is_driver(text: str, at: int = 0) -> bool:
    """Whether the function at this position calls kernels."""
    return _DRIVER.match(text, at) is not None


def without_optimising_drivers(text: str) -> str:
    """The text, in which drivers are compiled quickly at any level."""
    return _DRIVER.sub(r"\1 optnone noinline ", text)


def inline_bodies(text: str) -> str:
    """The text, in which bodies with one caller are inlined, so that what a loop hands to its body
    stays in registers."""

    def inlined(match: re.Match[str]) -> str:
        is_called_once = text.count(f"call i64 {match[2]}") == 1
        return f"{match[1]}{' alwaysinline' if is_called_once else ''} {{"

    return _BODY.sub(inlined, text)
