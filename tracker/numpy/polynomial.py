"""`numpy.polynomial` on tracked coefficients and points: its functions, and classes of its own.

NumPy's modules of polynomials are plain NumPy, but convert what they are given. Each is loaded a
second time from NumPy's own source, as a submodule of this one, and finds `tracker.numpy` where it
says `np`. What comes out of these classes is of these classes: `isinstance` does not mix them with
NumPy's.
"""

import importlib as _importlib

import numpy.polynomial as _own

import tracker.numpy as _names

__path__ = _own.__path__
_CLASSES = {
    "chebyshev": "Chebyshev",
    "hermite": "Hermite",
    "hermite_e": "HermiteE",
    "laguerre": "Laguerre",
    "legendre": "Legendre",
    "polynomial": "Polynomial",
}


def _load(name: str) -> object:
    module = _importlib.import_module(f"{__name__}.{name}")
    names = vars(module)
    names["np"] = _names
    for name, function in list(names.items()):  # what tells NumPy's protocol goes without telling
        names[name] = getattr(function, "_implementation", function)
    return module


for _name in ("polyutils", "_polybase"):
    _load(_name)
for _name, _class in _CLASSES.items():
    globals()[_class] = getattr(_load(_name), _class)
set_default_printstyle = _own.set_default_printstyle
__all__ = list(_own.__all__)
