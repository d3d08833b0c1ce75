"""Which of our drop-ins stands for an object of NumPy's, SciPy's, `math` or `statistics`.

NumPy's are known all at once; SciPy's and those of `statistics` are looked up one by one, so that
these packages are imported only for code that uses them.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from typing import Any

import numpy as np
from numpy.polynomial._polybase import ABCPolyBase

from tracker.support.deferred_signals import SIGNALS_DEFERRED
from tracker.user_frames import is_library_file

_MODULES = {
    name: f"tracker.{name}" for name in ("numpy", "numpy.fft", "numpy.lib", "numpy.linalg")
} | {
    "numpy.lib.stride_tricks": "tracker.numpy.lib.stride_tricks",
    "math": "tracker.numpy._math",
    "cmath": "tracker.numpy._cmath",
}


def drop_in(x: Any, package: str) -> Any:
    """The drop-in for an object of a package; the object itself if there is none."""
    home = _home(x)
    with SIGNALS_DEFERRED:  # imports
        if package == "scipy":
            return _scipy_drop_in(x, home)
        if package == "statistics":
            file = getattr(sys.modules.get(package), "__file__", None)
            if file is None or not is_library_file(file):
                return x  # a module of the user's
            return _named_drop_in(x, package, "tracker.numpy._statistics")
        if home.startswith("numpy.random"):
            return _named_drop_in(x, "numpy.random")
        if home.startswith("numpy.polynomial"):
            if isinstance(x, ABCPolyBase):
                return _polynomial(x)
            return _named_drop_in(x, home if home in sys.modules else "numpy.polynomial")
        if type(x) is np.vectorize:
            return _vectorized(x)
        return _known_drop_ins().get(id(x), (x, x))[1]


def _home(x: Any) -> str:
    """The name of the module that an object is, or is defined in."""
    if isinstance(x, types.ModuleType):
        return x.__name__
    if type(x).__name__ in _HOMES:
        return _HOMES[type(x).__name__]
    owner = getattr(x, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return _home(owner)  # a method
    return getattr(x, "__module__", None) or type(x).__module__ or ""


@functools.cache
def _known_drop_ins() -> dict[int, tuple[Any, Any]]:
    """By id: an object of NumPy's or of `math`, and its drop-in."""
    found: dict[int, tuple[Any, Any]] = {}
    for module, drop_in_module in _MODULES.items():
        theirs, ours = importlib.import_module(module), importlib.import_module(drop_in_module)
        found[id(theirs)] = theirs, ours
        for name in getattr(theirs, "__all__", vars(ours)):
            if name in vars(theirs):
                x, y = vars(theirs)[name], vars(ours).get(name, _ABSENT)
                _names.append((vars(theirs), vars(ours), name, x, y))
                if y is not _ABSENT and y is not x:
                    found[id(x)] = x, y
    return found


_HOMES = {"SuperLU": "scipy.sparse.linalg"}  # of classes that name no module
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_ABSENT: Any = object()
_names: list[tuple[dict[str, Any], dict[str, Any], str, Any, Any]] = []


def follow_changes() -> None:
    """Do to our modules what somebody has done to NumPy's and to `math`: `np.sqrt = mine`."""
    for theirs, ours, name, x, y in _names:
        now = theirs.get(name, _ABSENT)
        want = y if now is x else now
        if ours.get(name, _ABSENT) is want:
            continue
        if want is _ABSENT:
            del ours[name]
        else:
            ours[name] = _known_drop_ins().get(id(want), (want, want))[1]


def _named_drop_in(x: Any, module: str, drop_in_module: str = "") -> Any:
    """What has the name of an object of this module in ours, by default of the same name."""
    theirs = sys.modules[module]
    ours = importlib.import_module(drop_in_module or f"tracker.{module}")
    if isinstance(x, types.ModuleType):
        return ours if x is theirs else x
    name = getattr(x, "__name__", None)
    if name is None or vars(theirs).get(name) is not x:
        name = next((name for name, y in vars(theirs).items() if y is x), None)
    return x if name is None else getattr(ours, name)


def _vectorized(x: Any) -> Any:
    """The same for a function that `np.vectorize` has made, often as its decorator."""
    cls: Any = drop_in(np.vectorize, "numpy")
    found = cls.__new__(cls)
    found.__dict__ = vars(x)  # one for both, so that assignments to attributes are seen
    return found


def _polynomial(x: Any) -> Any:
    """The same for a polynomial, which shares its attributes."""
    found: Any = object.__new__(drop_in(type(x), "numpy"))
    found.__dict__ = vars(x)
    return found


def _scipy_drop_in(x: Any, home: str) -> Any:
    scipy = importlib.import_module("tracker.scipy")
    if x is sys.modules["scipy"]:
        return scipy
    if isinstance(x, np.ufunc):
        home = "scipy.special"
    homes = [
        f"scipy.{name}" for name in scipy.SUBMODULES if f"{home}.".startswith(f"scipy.{name}.")
    ]
    module = max(homes, key=len, default=None)
    if module is None or module not in sys.modules:
        return x
    if not isinstance(x, (*_NAMED, np.ufunc)):
        return _drop_in_of_object(x, module)
    owner = getattr(x, "__self__", None)
    if owner is None:  # a function of a class is named by that
        owner = vars(sys.modules[module]).get(getattr(x, "__qualname__", "").rpartition(".")[0])
    if owner is None or isinstance(owner, types.ModuleType):
        return _named_drop_in(x, module)
    is_class = isinstance(owner, type)
    drop_in = _named_drop_in(owner, module) if is_class else _drop_in_of_object(owner, module)
    return x if drop_in is owner else getattr(drop_in, x.__name__)


def _drop_in_of_object(x: Any, module: str) -> Any:
    """The drop-in for an object of a class of SciPy's."""
    distribution = _frozen_distribution(x)
    if distribution is not None:
        like = _named_drop_in(getattr(sys.modules[module], distribution), module)
        return like(*x.args, **x.kwds)
    named = _named_drop_in(x, module)
    if named is not x:
        return named
    importlib.import_module(f"tracker.{module}")
    return importlib.import_module("tracker.scipy._bridge.fallback").object_drop_in(x)


def _frozen_distribution(x: Any) -> str | None:
    """The name of a univariate distribution whose parameters are fixed; None for anything else."""
    names = {cls.__name__ for cls in type(x).__mro__}
    return x.dist.name if "rv_frozen" in names else None
