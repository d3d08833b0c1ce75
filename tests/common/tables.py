"""Tables of programs: the functions of a class."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest


def functions(cls: type) -> dict[str, Callable[..., Any]]:
    """The functions of a class by name."""
    return {name: f for name, f in vars(cls).items() if isinstance(f, types.FunctionType)}


def functions_of(*classes: type) -> Callable[[Any], Any]:
    """Decorator of a test: a case `f` for each function of these classes."""
    found = {name: f for cls in classes for name, f in functions(cls).items()}
    return pytest.mark.parametrize("f", found.values(), ids=found)
