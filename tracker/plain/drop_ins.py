"""The drop-in for an object of NumPy's, SciPy's or Python's `math`.

`set_drop_ins` hands in the function that looks for one (`tracker/drop_ins.py`): the rooms that
differentiate import none of the drop-ins themselves.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.tape.tracked import Tracked

# What has no drop-in, and leads to nothing that has.
PLAIN_CLASSES = frozenset(
    (
        *(bool, int, float, complex, str, bytes, type(None), type(...), slice, range),
        *(np.ndarray, np.float64, np.float32, np.int64, np.bool_, np.dtype, Tracked),
    )
)
PACKAGES = ("numpy", "scipy", "math")

_DEFINED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
KNOWN: dict[int, tuple[Any, Any]] = {}  # by id: an original, its drop-in
ORIGINALS: dict[int, Any] = {}  # by the id of a drop-in
_look_up: Callable[[Any, str], Any]


def set_drop_ins(look_up: Callable[[Any, str], Any]) -> None:
    """Set the function that gives the drop-in for an object of a package, or the object itself
    (called once, at import)."""
    global _look_up
    _look_up = look_up


def drop_in_for(x: Any) -> Any:
    """The drop-in for an object; the object itself if there is none."""
    known = KNOWN.get(id(x))
    if known is not None:
        return known[1]
    package = _package_of(x)
    if package not in PACKAGES or id(x) in ORIGINALS:
        return x
    found = _look_up(x, package)
    if found is not x:
        KNOWN[id(x)] = x, found
        ORIGINALS[id(found)] = x
    return found


def _package_of(x: Any) -> str:
    """The package that an object is defined in; "" if that is unknown."""
    if isinstance(x, types.ModuleType):
        name: Any = vars(x).get("__name__")
    elif isinstance(x, np.ufunc):
        return "scipy" if getattr(np, x.__name__, None) is not x else "numpy"
    elif isinstance(x, types.BuiltinMethodType) and not isinstance(x.__self__, types.ModuleType):
        name = x.__module__ or type(x.__self__).__module__
    elif isinstance(x, _DEFINED):
        name = x.__module__
    else:
        name = type(x).__module__
    return name.partition(".")[0] if type(name) is str else ""
