"""The drop-in for an object of NumPy's, SciPy's, `math` or `statistics`.

`set_drop_ins` hands in the function that looks for one (`tracker/drop_in_table.py`): the rooms that
differentiate import none of the drop-ins themselves.
"""

from __future__ import annotations

import functools
import operator
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial._polybase import ABCPolyBase

from tracker.support.weakrefs import removing_ref
from tracker.tape.conversions import plain_key
from tracker.tape.observers import ObserversSuspended
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked
from tracker.tape.value import is_constant

# What has no drop-in, and leads to nothing that has.
PLAIN_CLASSES = frozenset(
    (
        *(bool, int, float, complex, str, bytes, type(None), type(...), slice, range),
        *(np.ndarray, np.float64, np.float32, np.int64, np.bool_, np.dtype, Tracked),
    )
)
PACKAGES = ("numpy", "scipy", "math", "cmath", "statistics")

_DEFINED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_NAMED = (*_DEFINED, types.ModuleType, np.ufunc)
_CACHED = functools._lru_cache_wrapper
HOLDING = (_CACHED, np.vectorize, functools.partial)  # functions that call another one
_MAX_DEPTH, _MAX_LENGTH = 3, 64  # of tuples: deeper or longer ones hold data
_CLASSES_OF_C = {"SuperLU": "scipy"}  # which name no module
_MULTIMETHODS = "uarray"  # the module of their class; the functions of `scipy.fft` are some
_MAX_KEPT = 16
_KEPT: deque[int] = deque()
KNOWN: dict[int, tuple[Any, Any]] = {}  # by id: an original, its drop-in
ORIGINALS: dict[int, Any] = {}  # by the id of a drop-in
_look_up: Callable[[Any, str], Any]
_follow_changes: Callable[[], None]


def set_drop_ins(look_up: Callable[[Any, str], Any], follow_changes: Callable[[], None]) -> None:
    """Set the function that gives the drop-in for an object of a package, or the object itself, and
    one that does to the drop-ins what was done to the packages (called once, at import)."""
    global _look_up, _follow_changes
    _look_up, _follow_changes = look_up, follow_changes


def follow_changes() -> None:
    """Look at what has been changed in NumPy: too costly to do it at each call."""
    _follow_changes()


def drop_in_for(x: Any) -> Any:
    """The drop-in for an object; the object itself if there is none."""
    known = KNOWN.get(id(x))
    if known is not None:
        return known[1]
    if isinstance(x, (list, dict)):
        return x
    if isinstance(x, tuple):
        return drop_in_for_tuple(x, drop_in_for)
    package = _package_of(x)
    if type(x) in HOLDING:
        found = _drop_in_of_function(x)
    elif package not in PACKAGES or id(x) in ORIGINALS:
        return x
    else:
        found = _look_up(x, package)
    if found is x:
        return x
    if type(x) in HOLDING or (not isinstance(x, _NAMED) and _may_be_users(x, package)):
        _remember(x, found)
    else:
        KNOWN[id(x)] = x, found
        ORIGINALS[id(found)] = x
    return found


def leads_further(x: Any) -> bool:
    """Whether an object with a drop-in leads to other objects."""
    return type(x) in HOLDING or isinstance(x, tuple)


def drop_in_for_tuple(x: Any, find: Callable[[Any], Any], depth: int = 0) -> Any:
    """A tuple of the same class with the drop-ins of its items; the tuple itself if there is
    none."""
    if PLAIN_CLASSES.issuperset(map(type, x)) or depth == _MAX_DEPTH or len(x) > _MAX_LENGTH:
        return x
    made = [drop_in_for_tuple(y, find, depth + 1) if isinstance(y, tuple) else find(y) for y in x]
    if all(map(operator.is_, made, x)) or type(x).__dictoffset__:
        return x
    return tuple.__new__(type(x), made)


def _may_be_users(x: Any, package: str) -> bool:
    """Whether user code may have made an object: a frozen distribution, a spline, a polynomial."""
    if type(x).__module__ == _MULTIMETHODS:
        return False
    return package == "scipy" or isinstance(x, ABCPolyBase)


def _remember(x: Any, found: Any) -> None:
    """Remember the drop-in for an object as long as that lives; of those without weak references,
    the latest."""
    try:
        KNOWN[id(x)] = removing_ref(x, KNOWN), found
    except TypeError:
        KNOWN[id(x)] = x, found
        _KEPT.append(id(x))
        if len(_KEPT) > _MAX_KEPT:
            KNOWN.pop(_KEPT.popleft(), None)


def original_of(x: Any) -> Any:
    """The object that a drop-in stands for; any other object itself."""
    return ORIGINALS.get(id(x), x)


def _drop_in_of_function(x: Any) -> Any:
    """The drop-in for a function that calls another one."""
    if type(x) is _CACHED:
        return CachedFunction(x)
    if type(x) is np.vectorize:
        return _look_up(x, "numpy")
    function = drop_in_for(x.func)
    return x if function is x.func else functools.partial(function, *x.args, **x.keywords)


def _giving_plain_array(method: Any) -> Any:
    """The drop-in for a method `__array__`, whose caller, NumPy, takes no tracked array: what is
    constant in that is given as plain numbers."""

    @functools.wraps(method)
    def __array__(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = method(self, *args, **kwargs)
        return np.asarray(made) if type(made) is Tracked and is_constant(value_of(made)) else made

    return __array__


def _given_drop_in(method: Any) -> Any:
    """The drop-in for a method `__array_ufunc__`, which may ask `ufunc is np.add`: NumPy calls it
    with its own."""

    @functools.wraps(method)
    def __array_ufunc__(self: Any, ufunc: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, drop_in_for(ufunc), *args, **kwargs)

    return __array_ufunc__


CALLED_BY_NUMPY = {"__array__": _giving_plain_array, "__array_ufunc__": _given_drop_in}


class CachedFunction:
    """The drop-in for a function with `functools.lru_cache`: what it keeps outlives the derivative,
    so it runs as if there were none."""

    def __init__(self, function: Any) -> None:
        self._function = weakref.ref(function)
        self.__module__ = function.__module__

    def __reduce__(self) -> str:  # for pickle, which finds it where the function was
        return str(self.__qualname__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function: Any = self._function()
        keys = [plain_key(x) for x in args]
        named = {name: plain_key(x) for name, x in kwargs.items()}
        with ObserversSuspended():
            return function(*keys, **named)

    def __get__(self, x: Any, cls: Any = None) -> Any:
        return self if x is None else types.MethodType(self, x)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function(), name)


def _package_of(x: Any) -> str:
    """The package that an object is defined in; "" if that is unknown."""
    if isinstance(x, types.ModuleType):
        name: Any = vars(x).get("__name__")
    elif isinstance(x, np.ufunc):
        return "scipy" if getattr(np, x.__name__, None) is not x else "numpy"
    elif isinstance(x, types.BuiltinMethodType) and not isinstance(x.__self__, types.ModuleType):
        return _package_of(x.__self__)
    elif isinstance(x, _DEFINED):
        name = x.__module__
    else:
        name = type(x).__module__
        if name == "builtins":
            name = _CLASSES_OF_C.get(type(x).__name__)
        elif name == _MULTIMETHODS:
            name = x.__module__
    return name.partition(".")[0] if type(name) is str else ""
