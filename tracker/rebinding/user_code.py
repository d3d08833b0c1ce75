"""Which namespaces are user code.

A module's file decides: the standard library, installed packages and this package are libraries.
What has no file (a notebook, a doctest, `exec`) is the user's. `config(plain=("mypkg",))` names
installed packages that count as user code.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from tracker.user_frames import is_library_file

Packages = frozenset[str]
NAMESPACES: dict[int, weakref.ref[Any]] = {}  # by the id of their dict: those in use


def is_user_namespace(space: dict[str, Any], packages: Packages) -> bool:
    """Whether a dict of globals is that of user code."""
    name = space.get("__name__")
    first = name.partition(".")[0] if type(name) is str else ""
    if first in ("tracker", "numpy", "scipy"):
        return False
    if first in packages:
        return True
    file = space.get("__file__")
    if type(file) is str:
        return not is_library_file(file)
    return first not in sys.builtin_module_names and "__path__" not in space
