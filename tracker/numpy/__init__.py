"""The drop-in for NumPy: `import tracker.numpy as np`.

Every name of NumPy is here. Most functions are NumPy's own, which pass tracked arrays to their
rules. The others are:

- constructors and functions that return new arrays (`_constructors.py`, and `_FRESH` below): while
  a function is differentiated or traced in this thread, tracked values can be stored in them;
- functions called with a list that holds tracked values (`_trackable.py`; ufuncs: `_ufuncs.py`);
- functions with callbacks, and scalar types, which convert tracked values (`_callables.py`);
- `nditer` and `broadcast` (`_iterators.py`), `lib.stride_tricks`;
- the submodules `linalg`, `fft`, `random`, `polynomial`.

Outside of a derivative, results are NumPy's own. There, `np.array([t, u])` of params works, but
storing a param's value into `np.zeros(n)` raises `ConversionError`, as no constructor can know of
that store. Use `np.zeros(n, like=t)`, or put the code into a function for `tracker.gradient`.

>>> import tracker.numpy as np
>>> def area(r):
...     sides = np.zeros(3)
...     for i in range(3):
...         sides[i] = r * i
...     return np.sum(sides)
>>> tracker.gradient(area, 2.0)
(3.0,)
"""

import importlib
import sys as _sys
from types import FunctionType as _FunctionType
from typing import TYPE_CHECKING, Any

import numpy as _numpy

from tracker.numpy import _callables, _constructors, _iterators, fft, lib, linalg  # noqa: F401
from tracker.numpy._trackable import accepting_lists as _lenient
from tracker.numpy._trackable import giving_trackable as _making_of
from tracker.numpy._ufuncs import Ufunc as _Ufunc
from tracker.support.pickling import at_home as _at_home
from tracker.tape.observers import has_active_transform as _is_following

_FRESH = (
    *("append", "block", "bmat", "choose", "column_stack", "concat"),
    *("concatenate", "copy", "corrcoef", "cov", "delete", "diag", "diagflat", "dstack"),
    *("empty_like", "full_like", "hstack", "insert", "kron", "meshgrid", "nan_to_num"),
    *("ones_like", "outer", "pad", "repeat", "resize", "roll", "select", "sort", "stack", "tile"),
    *("tril", "triu", "vander", "vstack", "where", "zeros_like"),
    *("eye", "frombuffer", "fromfile", "fromfunction", "fromstring", "genfromtxt", "geomspace"),
    *("identity", "indices", "linspace", "loadtxt", "logspace", "tri"),
    *("bartlett", "blackman", "hamming", "hanning"),
)
_OWN_WAY = ("fft", "lib", "linalg", "ndarray", "polynomial", "random")
_SCALARS = {
    name: value
    for name, value in vars(_numpy).items()
    if isinstance(value, type)
    and issubclass(value, (_numpy.number, _numpy.datetime64))
    and name in _numpy.__all__
}


def _names() -> dict[str, Any]:
    names = {}
    known: dict[Any, Any] = {}  # some ufuncs have two names
    for name in _numpy.__all__:
        if name not in vars(_numpy):  # a submodule that NumPy imports when it is asked for
            continue
        value = getattr(_numpy, name)
        if name in _FRESH:
            value = _at_home(_making_of(value), __name__, name)
        elif isinstance(value, _numpy.ufunc):
            value = known.setdefault(value, _Ufunc(value))
        elif hasattr(value, "_implementation"):
            value = _at_home(_lenient(value), __name__, name)
        if name not in _SCALARS and name not in _OWN_WAY:
            names[name] = value
    return names


globals().update(_names())
for _module in (_constructors, _callables, _iterators):
    for _name in _module.NAMES:
        globals()[_name] = _value = getattr(_module, _name)
        if isinstance(_value, _FunctionType):  # for `inspect.signature`
            _value.__wrapped__ = getattr(_numpy, _name)  # type: ignore[attr-defined]
            _at_home(_value, __name__, _name)
__all__ = list(_numpy.__all__)
__version__ = _numpy.__version__


if TYPE_CHECKING:
    from numpy import *  # type: ignore[no-redef]  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Names that depend on the running transform (scalar types, `ndarray`), and those that
        NumPy does not list."""
        if name in ("polynomial", "random"):  # loaded on first use
            return importlib.import_module(f"tracker.numpy.{name}")
        value = getattr(_numpy, name)
        if (name != "ndarray" and name not in _SCALARS) or not _is_following():
            return value
        asking = _sys._getframe(1)
        # the code compares classes by identity
        if _callables.is_identity_comparison(asking.f_code, asking.f_lasti):
            return value
        if name == "ndarray":
            return _constructors.ndarray
        if getattr(value, "__abstractmethods__", None):
            return value
        return _callables.scalar_type(value)


def __dir__() -> list[str]:
    return dir(_numpy)
