"""Tables of programs, which are the functions of a class, and of calls that raise."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest


def functions(cls: type) -> dict[str, Callable[..., Any]]:
    """The functions of a class by name."""
    return {name: f for name, f in vars(cls).items() if isinstance(f, types.FunctionType)}


def functions_of(*classes: type) -> Callable[[Any], Any]:
    """Decorator of a test: a case `f` for each function of these classes."""
    found = {name: f for cls in classes for name, f in functions(cls).items()}
    return pytest.mark.parametrize("f", found.values(), ids=found)


def refused(
    calls: Mapping[type[Exception], Mapping[str, Callable[[], Any]]],
) -> Callable[..., None]:
    """A test of each call: that it raises this error, with a text that matches."""
    rows = [(error, match, call) for error, table in calls.items() for match, call in table.items()]

    @pytest.mark.parametrize("error, match, call", rows, ids=[match for _, match, _ in rows])
    def test(error: type[Exception], match: str, call: Callable[[], Any]) -> None:
        with pytest.raises(error, match=match):
            call()

    return test
