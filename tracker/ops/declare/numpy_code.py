"""NumPy's own Python code on tracked values.

Many functions of NumPy are a few lines of Python that call its other functions. `run_as_written`
enters a copy of such a function for tracked arrays: the same code object with other globals, in
which

    asarray, array, atleast_1d, ...  accept tracked values, and lists that hold some
    warnings.warn                    names the user's line
    private functions of NumPy       are copied in turn

and everything else is NumPy's: its public functions come back to this package by the array
protocol, where an argument is tracked. A function is written by hand where its copy would be slower
or would have other derivatives, where NumPy fills plain arrays, and where lists that hold tracked
values get past the names above. (`scipy/_bridge/scipy_source.py` does the same with SciPy's code.)
"""

from __future__ import annotations

import builtins
import inspect
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracker.errors import warn
from tracker.ir.op import NUMPY
from tracker.ops.declare.arguments import as_strong_array

Function = Callable[..., Any]


def run_as_written(*functions: Function) -> None:
    """Enter copies of these functions, which accept tracked arrays."""
    for function in functions:
        NUMPY[function] = _copied(inspect.unwrap(function))


def _copied(function: Any) -> Function:
    """The function with globals that accept tracked arrays; it calls itself directly."""
    space: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
    made = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__)
    made.__kwdefaults__, made.__module__ = function.__kwdefaults__, function.__module__
    for name in global_names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            space[name] = made if inspect.unwrap(value) is function else _stand_in(value)
    return made


def global_names(code: types.CodeType) -> Iterator[str]:
    """The names that a function reads, also in functions and comprehensions inside of it."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from global_names(part)


def _stand_in(value: Any) -> Any:
    """What stands for an object in NumPy's globals."""
    if id(value) in _STAND_INS:
        return _STAND_INS[id(value)]
    if isinstance(value, types.ModuleType) and value.__name__.startswith("numpy"):
        return ModuleWithStandIns(value, lambda _, x: _stand_in(x))
    is_private = isinstance(value, types.FunctionType) and value.__name__.startswith("_")
    return _copied(value) if is_private and value.__module__.startswith("numpy") else value


class ModuleWithStandIns:
    """A module, with what `stand_in` gives for the names and objects in it."""

    def __init__(self, module: types.ModuleType, stand_in: Callable[[str, Any], Any]) -> None:
        self._module, self._stand_in = module, stand_in

    def __getattr__(self, name: str) -> Any:
        value = self._stand_in(name, getattr(self._module, name))
        setattr(self, name, value)
        return value


def _asarray(x: Any, dtype: Any = None) -> Any:
    x = as_strong_array(x)
    return x if dtype is None or x.dtype == dtype else np.astype(x, dtype)


def _entered(function: Function) -> Function:
    """This package's function, which need not be entered yet."""
    return lambda *args, **kwargs: NUMPY[function](*args, **kwargs)


_STAND_INS: dict[int, Any] = {
    id(np.asarray): _asarray,
    id(np.asanyarray): _asarray,
    id(warnings): types.SimpleNamespace(
        warn=lambda text, category, stacklevel: warn(text, category)
    ),
    **{id(f): _entered(f) for f in (np.array, np.atleast_1d, np.atleast_2d, np.atleast_3d)},
}
