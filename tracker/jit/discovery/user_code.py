"""Tells user code, which is followed, from library code, which is not.

Invariant: no user code runs.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from tracker.errors import INSTALLED, is_internal, is_library_file
from tracker.plain.user_code import is_user_namespace

INTERNAL_PACKAGES = ("tracker", "numpy")
_KNOWN_PACKAGES = (*INTERNAL_PACKAGES, "scipy")


class UserCode:
    """Modules of `package` are the user's, wherever they are."""

    def __init__(self, package: str) -> None:
        self.package = package

    def has_module(self, module: types.ModuleType | None) -> bool:
        if module is None or module.__name__.partition(".")[0] == self.package:
            return True
        return is_user_namespace(_module_dict(module), frozenset())

    def has_class(self, cls: type) -> bool:
        return self.has_module(sys.modules.get(cls.__module__))

    def has_function(self, f: types.FunctionType) -> bool:
        if is_internal(f.__code__):  # a derivative has the names of its function
            return False
        module, path = f.__module__ or "", f.__code__.co_filename
        if module.partition(".")[0] == self.package:
            return True
        if path == "<string>" and not f.__name__.startswith("__"):  # of `exec`, not `dataclasses`
            return self.has_module(sys.modules.get(module))
        return not is_library_file(path)

    def is_installed(self, module: str | None) -> bool:
        """Whether a module belongs to an installed package, of which nothing is known: not the
        user's, nor Python's, NumPy's or SciPy's."""
        found = sys.modules.get(module or "")
        where = _module_dict(found).get("__file__")
        if where is None or (module or "").partition(".")[0] in _KNOWN_PACKAGES:
            return False
        return not self.has_module(found) and INSTALLED.search(where) is not None


def _module_dict(module: types.ModuleType | None) -> dict[str, Any]:
    """The `__dict__` of a module: its `__getattr__` would run user code."""
    own: dict[str, Any] = getattr(module, "__dict__", {})
    return own
