"""What other libraries' classes need for tracked operands, installed once a library is imported.

Some methods of other libraries convert every operand to a plain array, without asking whose
operator should run. Such methods are wrapped when the first leaf is made after the import of their
library, so that users without the library pay nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

seen_count = 0  # modules that were imported at the last look
_hooks: dict[str, Callable[[Any], None]] = {}
_wrapped: set[tuple[type, str]] = set()


def when_imported(name: str, install: Callable[[Any], None]) -> None:
    """Call `install` with the module of this name before the next leaf after its import."""
    _hooks[name] = install


def run_hooks() -> None:
    """Call what waits for modules that are imported by now."""
    global seen_count
    seen_count = len(sys.modules)
    for name in [name for name in _hooks if name in sys.modules]:
        module = sys.modules[name]
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            install = _hooks.pop(name, None)
            if install is not None and isinstance(module, ModuleType):
                install(module)


def wrap_method(cls: type, name: str, wrap: Callable[[Any], Any]) -> None:
    """Replace a method where it is defined, in `cls` or a base; only once. (Without it, as in
    another version of the library, operands are refused.)"""
    owner = next((each for each in cls.__mro__ if name in vars(each)), None)
    if owner is not None and (owner, name) not in _wrapped:
        _wrapped.add((owner, name))
        theirs = vars(owner)[name]
        setattr(owner, name, functools.wraps(theirs)(wrap(theirs)))
