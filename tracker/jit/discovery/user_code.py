"""Tells user code, which is followed, from library code, which is not.

`is_installed` singles out installed packages, of which nothing is known.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from tracker.errors import INSTALLED, is_internal, is_library_file

INTERNAL_PACKAGES = ("tracker", "numpy")
_KNOWN_PACKAGES = (*INTERNAL_PACKAGES, "scipy")


def is_library(module: types.ModuleType | None, package: str) -> bool:
    """Whether a module is a library's; modules of `package` never are."""
    first = "" if module is None else module.__name__.partition(".")[0]
    if module is None or first == package:
        return False
    own = _module_dict(module)
    where = own.get("__file__")
    if first in INTERNAL_PACKAGES:
        return True
    if where is None:
        return module.__name__ in sys.builtin_module_names or "__path__" in own
    return is_library_file(where)


def is_installed(module: str, package: str) -> bool:
    """Whether a module belongs to an installed package: not the user's, nor Python's, NumPy's or
    SciPy's."""
    found = sys.modules.get(module)
    where = _module_dict(found).get("__file__")
    if where is None or module.partition(".")[0] in _KNOWN_PACKAGES:
        return False
    return is_library(found, package) and INSTALLED.search(where) is not None


def _module_dict(module: types.ModuleType | None) -> dict[str, Any]:
    """The `__dict__` of a module: its `__getattr__` would run user code."""
    own: dict[str, Any] = getattr(module, "__dict__", {})
    return own


def is_library_code(f: types.FunctionType, package: str) -> bool:
    if is_internal(f.__code__):  # a derivative has the names of its function
        return True
    module, path = f.__module__ or "", f.__code__.co_filename
    if module.partition(".")[0] == package:
        return False
    if path == "<string>" and not f.__name__.startswith("__"):  # `exec` made it, not `dataclasses`
        return is_library(sys.modules.get(module), package)
    return is_library_file(path)
