"""Versions of Python and NumPy, where behaviour differs."""

from __future__ import annotations

import sys
from types import ModuleType


def version_of(package: ModuleType) -> tuple[int, int]:
    """(major, minor) of a package.

    >>> version_of(np) >= (2, 0)
    True
    """
    major, minor, *_ = package.__version__.split(".")
    return int(major), int(minor)


def unsupported_interpreter() -> str:
    """Name and version of this interpreter, if the memory layout of its objects is unknown; else
    ""."""
    version = f"{sys.implementation.name} {sys.version.split()[0]}"
    if sys.implementation.name != "cpython":
        return version
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)
    if "free-threading" in sys.version or not has_lock():
        return f"free-threaded {version}"
    return ""
