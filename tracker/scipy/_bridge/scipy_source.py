"""SciPy's own Python code on tracked values: `rebound` makes a copy of a function or class of the
installed SciPy, with the same code objects and other globals.

In these globals

    numpy and its functions    are `tracker.numpy`'s; arrays that they allocate hold tracked values
    scipy's functions          are this package's, where it has one of that name
    other functions of scipy   are rebound in turn
    helpers (`_HELPERS`)       that convert arguments, or find their array namespace, accept them
    `stand_ins`                for SciPy's compiled code, are what the caller gives

Classes that are referred to (errors, named tuples) and ufuncs stay SciPy's. Nothing is rebound
before the first call: SciPy's modules need not be loaded, and their order does not matter.
"""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tracker.numpy
from tracker.numpy._trackable import trackable
from tracker.ops.declare.numpy_code import ModuleWithStandIns, global_names
from tracker.scipy._bridge.dropin import DROP_INS, drop_in
from tracker.scipy._bridge.fallback import as_array
from tracker.tape.observers import is_tracing
from tracker.tape.record import aval_of
from tracker.tape.tracked import Tracked

Function = Callable[..., Any]
NUMPY = types.ModuleType("numpy")  # `tracker.numpy`, under the name that SciPy looks for
NUMPY.__getattr__ = lambda name: getattr(tracker.numpy, name)  # type: ignore[method-assign]


def _allocating(name: str) -> Function:
    make = getattr(tracker.numpy, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        y = make(*args, **kwargs)
        return y if isinstance(y, Tracked) or y.dtype.kind not in "fc" else trackable(y)

    return call


for _name in ("empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros"):
    setattr(NUMPY, _name, _allocating(_name))
NUMPY.zeros_like = _allocating("zeros_like")  # type: ignore[attr-defined]


def _asarray(x: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if type(x) is Tracked and not kwargs.get("copy"):
        return x if dtype is None or x.dtype == dtype else np.astype(x, dtype)
    return tracker.numpy.asarray(x, dtype, *args, **kwargs)


NUMPY.asarray = NUMPY.asanyarray = _asarray  # type: ignore[attr-defined]


def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    tracked = isinstance(a, Tracked) or isinstance(b, Tracked)
    return False if tracked else np.may_share_memory(a, b, max_work)


def _sliding_window_view(*args: Any, writeable: bool = False, **kwargs: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(*args, **kwargs)  # SciPy writes to none


NUMPY.lib = types.SimpleNamespace(  # type: ignore[attr-defined]
    stride_tricks=types.SimpleNamespace(sliding_window_view=_sliding_window_view)
)
NUMPY.may_share_memory = _may_share_memory  # type: ignore[attr-defined]

# Helpers of SciPy's -------------------------------------------------------------------------------


def _apply_where(
    condition: Any, args: Any, f1: Function, f2: Any = None, fill_value: Any = None, **_: Any
) -> Any:
    """Each function where it counts. Derivatives are exactly 0 at the other elements."""
    args = args if isinstance(args, (tuple, list)) else (args,)
    args = tuple(_as_numpy_number(x) if np.ndim(x) == 0 else as_array(x) for x in args)
    shape = np.broadcast_shapes(np.shape(condition), *map(np.shape, args))
    if not is_tracing():  # where all elements agree, only one is needed
        known = np.asarray(aval_of(condition))
        if known.all():
            return _of_shape(f1(*args), shape)
        if not known.any():
            return _of_shape(f2(*args) if f2 else as_array(fill_value), shape)[()]
    with np.errstate(all="ignore"):
        return np.where(condition, f1(*args), f2(*args) if f2 else fill_value)


def _as_numpy_number(x: Any) -> Any:
    """A number that divides by zero as an array does, with a warning."""
    return x * np.float64(1.0) if type(aval_of(x)) in (bool, int, float, complex) else x * 1.0


def _of_shape(y: Any, shape: tuple[int, ...]) -> Any:
    return y if np.shape(y) == shape else np.broadcast_to(y, shape)


def _lazy_select(conditions: Any, choices: Any, args: Any, default: Any = 0) -> Any:
    y: Any = default
    with np.errstate(all="ignore"):
        for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
            y = np.where(condition, choice(*args), y)
    return y


def _validated(a: Any, check_finite: bool = True, *_: Any, **__: Any) -> Any:
    return as_array(a)  # `drop_in` has checked


_HELPERS: dict[str, Any] = {
    "array_namespace": lambda *_, **__: NUMPY,
    "apply_where": _apply_where,
    "_lazyselect": _lazy_select,
    "_asarray_validated": _validated,
    "is_numpy": lambda xp: True,
    "is_lazy_array": lambda x: False,
    "_contains_nan": lambda *_, **__: False,
}


class _At:
    """`array_api_extra.at`: an array with other elements."""

    def __init__(self, x: Any, index: Any = None, /) -> None:
        self.x, self.index = x, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self.x, index)

    def set(self, y: Any, **_: Any) -> Any:
        copied = np.copy(self.x)
        copied[self.index] = y
        return copied

    def __getattr__(self, name: str) -> Any:
        """`add`, `multiply`: the function of NumPy of the old elements and of others."""
        operation = getattr(np, {"min": "minimum", "max": "maximum"}.get(name, name))
        return lambda y, **_: self.set(operation(self.x[self.index], y))


_CLASSES: dict[str, Any] = {"at": _At}

# Rebinding ----------------------------------------------------------------------------------------

_BY_NUMPY_OBJECT = {
    id(value): getattr(NUMPY, name)
    for name, value in vars(np).items()
    if name in np.__all__ and not isinstance(value, type) and callable(value)
}
_BY_NUMPY_OBJECT |= {id(getattr(np, n)): getattr(tracker.numpy, n) for n in ("linalg", "fft")}
_BY_NUMPY_OBJECT[id(np)] = NUMPY


class Rebinding:
    """Rebound functions and classes that share their globals, by SciPy's module."""

    def __init__(
        self,
        stand_ins: Mapping[str, Any] | None = None,
        instances_of: tuple[type, ...] = (),
    ) -> None:
        self._stand_ins, self._instances_of = stand_ins or {}, instances_of
        self._globals: dict[str, dict[str, Any]] = {}
        self._made: dict[int, Any] = {}

    def drop_in(
        self,
        module: types.ModuleType,
        names: str,
        prepare: Callable[[str, Function], Function] = lambda name, run: run,
    ) -> None:
        """Replace functions of SciPy's module by rebound ones for tracked arguments. `prepare`
        does what SciPy's decorators would."""
        for name in names.split():
            run = self._on_first_call(inspect.unwrap(getattr(module, name)))
            drop_in(module, name)(prepare(name, run))

    def _on_first_call(self, theirs: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.of(theirs)(*args, **kwargs)

        call.rebinding = self  # type: ignore[attr-defined]
        return call

    def of(self, value: Any) -> Any:
        """What stands for an object of SciPy's."""
        if id(value) in self._made:
            return self._made[id(value)]
        if id(value) in _BY_NUMPY_OBJECT:
            return _BY_NUMPY_OBJECT[id(value)]
        name = getattr(value, "__name__", "")
        if isinstance(value, types.ModuleType):
            if name == "scipy._lib.array_api_compat.numpy":
                return NUMPY
            if not name.startswith("scipy"):
                return value
            return ModuleWithStandIns(value, self._named)
        if isinstance(value, types.FunctionType) and value.__module__.startswith("scipy"):
            return _HELPERS.get(name) or own_function(value, self) or self.function(value)
        if isinstance(value, type):
            return _CLASSES.get(name, value)
        return self._instance(value) if isinstance(value, self._instances_of) else value

    def _named(self, name: str, value: Any) -> Any:
        return self._stand_ins[name] if name in self._stand_ins else self.of(value)

    def function(self, f: Any, cell_class: type | None = None) -> Any:
        """The function without its decorators, whose `super()` is that of `cell_class`."""
        f = inspect.unwrap(f)
        if not isinstance(f, types.FunctionType):
            return f
        package = f.__globals__.get("__package__")
        new = {"__name__": f.__module__, "__package__": package, "__builtins__": builtins}
        space = self._globals.setdefault(f.__module__, new)
        cells = tuple(types.CellType() for _ in f.__closure__ or ())
        made = types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, cells or None)
        made.__kwdefaults__, made.__module__ = f.__kwdefaults__, f.__module__
        self._made[id(f)] = made
        self._fill(space, f.__globals__, f.__code__)
        for name, old, cell in zip(f.__code__.co_freevars, f.__closure__ or (), cells, strict=True):
            cell.cell_contents = cell_class if name == "__class__" else self.of(old.cell_contents)
        return made

    def _fill(self, space: dict[str, Any], old: dict[str, Any], code: types.CodeType) -> None:
        """Enter the globals that the code names."""
        for name in global_names(code):
            if name in self._stand_ins:
                space[name] = self._stand_ins[name]
            elif name in old and name not in space:
                space[name] = old[name]  # ends a recursion
                space[name] = self.of(old[name])

    def class_(self, cls: type) -> type:
        if not cls.__module__.startswith("scipy"):
            return cls
        bases = tuple(map(self.class_, cls.__bases__))  # whose methods may lead to this class
        if id(cls) not in self._made:
            made: Any = types.new_class(cls.__name__, bases)
            self._made[id(cls)] = made
            for name, value in vars(cls).items():
                if name not in ("__dict__", "__weakref__", "__class__", "__slots__"):
                    setattr(made, name, self._attribute(value, made))
        result: type = self._made[id(cls)]
        return result

    def _attribute(self, value: Any, cls: type) -> Any:
        if isinstance(value, types.FunctionType):
            return self.function(value, cls)
        if isinstance(value, (classmethod, staticmethod)):
            return type(value)(self.function(value.__func__, cls))
        if isinstance(value, property):
            return property(*(f and self.function(f, cls) for f in (value.fget, value.fset)))
        return value

    def _instance(self, value: Any) -> Any:
        """An object of the rebound class, in the same state."""
        made: Any = object.__new__(self.class_(type(value)))
        self._made[id(value)] = made
        made.__dict__.update(vars(value))
        return made


def own_function(theirs: Any, rebinding: Rebinding) -> Any:
    """This package's function for one of SciPy's, except those that `rebinding` makes."""
    for module, names in DROP_INS.items():
        name = theirs.__name__
        if name in names and inspect.unwrap(getattr(module, name)) is inspect.unwrap(theirs):
            ours = names[name]
            return None if getattr(ours, "rebinding", None) is rebinding else ours
    return None
