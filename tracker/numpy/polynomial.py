"""`numpy.polynomial` with tracked coefficients and points: its functions, and classes of its own.

NumPy's polynomial modules are plain NumPy, but convert their arguments. Each is loaded a second
time from NumPy's source, as a submodule of this one, with `tracker.numpy` in place of `np`. Results
are of these classes: `isinstance` does not mix them with NumPy's.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import numpy.polynomial as _numpy_module

import tracker.numpy as _names

__path__ = _numpy_module.__path__
_CLASSES = {
    "chebyshev": "Chebyshev",
    "hermite": "Hermite",
    "hermite_e": "HermiteE",
    "laguerre": "Laguerre",
    "legendre": "Legendre",
    "polynomial": "Polynomial",
}


def _load(name: str) -> _Any:
    module = _importlib.import_module(f"{__name__}.{name}")
    names = vars(module)
    names["np"] = _names
    for name, function in list(names.items()):  # NumPy's dispatching wrappers are not needed
        names[name] = getattr(function, "_implementation", function)
    return module


def _with_polynomials(mapdomain: _Any, mapparms: _Any, base: type) -> _Any:
    """`mapdomain` for points that are polynomials, too: arrays of them would be no polynomials."""

    def mapped(x: _Any, old: _Any, new: _Any) -> _Any:
        if not isinstance(x, base):
            return mapdomain(x, old, new)
        offset, scale = mapparms(old, new)
        return offset + scale * x

    return mapped


_utils = _load("polyutils")
_utils.mapdomain = _with_polynomials(
    _utils.mapdomain, _utils.mapparms, _load("_polybase").ABCPolyBase
)
for _name, _class in _CLASSES.items():
    globals()[_class] = getattr(_load(_name), _class)
set_default_printstyle = _numpy_module.set_default_printstyle
__all__ = list(_numpy_module.__all__)

if _TYPE_CHECKING:
    from numpy.polynomial import *  # noqa: F403


def __dir__() -> list[str]:
    return __all__
