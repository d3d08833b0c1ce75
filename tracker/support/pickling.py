"""How pickle and copy find a drop-in: by its name in the module that has it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def at_home(function: _F, module: str, name: str) -> _F:
    """The function, which pickle is told to find under this name in this module."""
    function.__module__, function.__qualname__ = module, name
    return function


def named(module: str, name: str) -> Any:
    """The object with this name: what objects that are no functions are reduced to."""
    return getattr(importlib.import_module(module), name)
