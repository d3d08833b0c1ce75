"""What is SciPy's own: names without a replacement, and objects that plain code has made.

`scipy_fallback` makes a module's `__getattr__`; type checkers read SciPy's stubs instead. SciPy's
functions refuse tracked values by name. Functions whose results have no derivative (positions,
labels, ranks) are given the plain numbers (`callback.py`). Classes are SciPy's own, or `classes.py`
has others.

`made_by_scipy` registers, for one of SciPy's classes, what makes an object of ours of one of
SciPy's: of splines, trees, factors. That is done for each call with tracked arguments, so that a
change of SciPy's object counts; calls without go to SciPy's object.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from tracker.errors import ConversionError, UnsupportedError
from tracker.scipy._bridge.callback import nondifferentiable
from tracker.support.pickling import at_home
from tracker.tape.tracked import Tracked

USE_DATA_HINT = "Use tracker.data(x) where no gradient is wanted"
_PLAIN_SPARSE_HINT = (
    "Where no gradient is wanted, use csr_array((tracker.data(a.data), a.indices, a.indptr), "
    "a.shape) for a in CSR format"
)


def scipy_fallback(
    module: ModuleType,
    accept_tracked: Collection[str] = (),
    constant: Collection[str] = (),
    hints: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module that replaces this one.

    accept_tracked  functions of SciPy's that accept tracked values as they are
    constant        functions whose results have no derivative
    hints           what a refusal tells the user to type, by name
    """
    texts = hints or {}
    names = [n for n in dir(module) if not n.startswith("_")]

    @functools.cache
    def look_up(name: str) -> Any:
        if name == "__all__":
            return names
        theirs = getattr(module, name)
        if name in accept_tracked or name.startswith("_") or not inspect.isroutine(theirs):
            return theirs
        title = f"{module.__name__}.{name}"
        if name in constant:
            found = nondifferentiable(theirs)
        else:
            found = refuse_tracked(theirs, title, texts.get(name, USE_DATA_HINT))
        return at_home(found, f"tracker.{module.__name__}", name)

    return look_up, names.copy


def refuse_tracked(theirs: Callable[..., Any], title: str, hint: str) -> Callable[..., Any]:
    """SciPy's function with a check that raises an error for tracked arguments."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_with_plain(theirs, title, hint, args, kwargs)

    call.refuses_tracked = True  # type: ignore[attr-defined]
    return call


def call_with_plain(
    theirs: Callable[..., Any], title: str, hint: str, args: Any, kwargs: dict[str, Any]
) -> Any:
    """The result of SciPy's function; an error for tracked arguments."""
    if is_tracked(*args, *kwargs.values()):
        args = tuple(to_plain(x, title, hint) for x in args)
        kwargs = {name: to_plain(x, title, hint) for name, x in kwargs.items()}
    try:
        return drop_in_of_result(theirs(*args, **kwargs))
    except Exception as error:
        if (cause := _conversion_error(error)) is None:
            raise
        raise no_derivative_rule(title, hint) from cause


def public_name(cls: type) -> str:
    """The name of a class of SciPy's, with that of the public module."""
    home = [part for part in cls.__module__.split(".") if not part.startswith("_")]
    return ".".join((*home, cls.__name__))


def _conversion_error(error: BaseException | None) -> ConversionError | None:
    """The error that SciPy met, or hides behind one of its own, where a function that it calls
    returns tracked values."""
    while error is not None and not isinstance(error, ConversionError):
        error = error.__cause__ or error.__context__
    return error


def to_plain(x: Any, title: str, hint: str = USE_DATA_HINT) -> Any:
    """Plain numbers of values that no derivative depends on: arrays that a traced function
    captures, buffers that are not filled. Other tracked values raise an error."""
    if type(x) in (list, tuple):
        return type(x)(to_plain(part, title, hint) for part in x)
    if is_tracked_sparse(x):
        raise no_derivative_rule(title, _PLAIN_SPARSE_HINT if hint is USE_DATA_HINT else hint)
    if getattr(type(x), "_holds_tracked", False):
        raise no_derivative_rule(title, hint)
    if not isinstance(x, Tracked):
        return x
    try:
        return np.asarray(x)[()]
    except ConversionError as error:
        raise no_derivative_rule(title, hint) from error


_METHOD_HINTS = {  # of distributions
    "expect": "Integrate func(x) * pdf(x), by scipy.integrate.quad",
    "fit": "Minimise -np.sum(logpdf(x, ...)), by scipy.optimize.minimize",
}


def no_derivative_rule(title: str, hint: str = USE_DATA_HINT) -> UnsupportedError:
    if hint is USE_DATA_HINT:
        hint = _METHOD_HINTS.get(title.rpartition(".")[2], hint)
    return UnsupportedError(f"{title} has no derivative rule here", hint)


def is_tracked(*xs: Any) -> bool:
    """Whether an argument is tracked, holds tracked values, or is a list or tuple of such."""
    return any(
        isinstance(x, Tracked)
        or getattr(type(x), "_holds_tracked", False)
        or (isinstance(x, (list, tuple)) and is_tracked(*x))
        for x in xs
    )


def is_tracked_sparse(x: Any) -> bool:
    """Whether an object is a sparse array with tracked entries."""
    return hasattr(type(x), "_tracker_sparse")


def as_array(x: Any) -> Any:
    """A tracked value as it is, other values as arrays. Nested lists of tracked values are
    stacked."""
    if isinstance(x, Tracked):
        return x
    if isinstance(x, (list, tuple)) and is_tracked(*x):
        return np.stack([as_array(part) for part in x])
    return np.asarray(x)


# Objects of SciPy's -------------------------------------------------------------------------------

Maker = Callable[[Any], Any]
MAKERS: dict[type, tuple[Maker, bool]] = {}  # and whether its objects stand for SciPy's


def made_by_scipy(cls: type, *, replaces: bool = False) -> Callable[[Maker], Maker]:
    """Decorator: what makes an object of ours of one of SciPy's class. `replaces` says that it may
    do so once, because SciPy's object does not change."""

    def register(make: Maker) -> Maker:
        MAKERS[cls] = make, replaces
        return make

    return register


def object_drop_in(x: Any) -> Any:
    """The drop-in for an object of SciPy's; the object itself if there is none."""
    for cls in type(x).__mro__:
        if cls in MAKERS:
            make, replaces = MAKERS[cls]
            return make(x) if replaces else ScipyObject(_reference(x), make)
    return x


def _reference(x: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:  # a class of C's without weak references
        return lambda: x


class ScipyObject:
    """An object of SciPy's that takes tracked arguments, too.

    _theirs  gives SciPy's object, which its owner keeps alive
    _make    makes an object of ours of it
    """

    __slots__ = ("__weakref__", "_make", "_theirs")

    def __init__(self, theirs: Callable[[], Any], make: Maker) -> None:
        object.__setattr__(self, "_theirs", theirs)
        object.__setattr__(self, "_make", make)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._theirs())  # for `isinstance`

    def __getattr__(self, name: str) -> Any:
        theirs = self._theirs()
        found = getattr(theirs, name)
        return found if name.startswith("_") or not callable(found) else self._method(name, theirs)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._theirs(), name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._method("__call__", self._theirs())(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _kept, (self._theirs(), self._make)

    def __mul__(self, other: Any) -> Any:
        return self._method("__mul__", self._theirs())(other)

    def __matmul__(self, other: Any) -> Any:
        return self._method("__matmul__", self._theirs())(other)

    def _method(self, name: str, theirs: Any) -> Callable[..., Any]:
        return functools.partial(_call_method, self._make, theirs, name)


def _call_method(make: Maker, theirs: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    if is_tracked(*args, *kwargs.values()):
        ours = getattr(make(theirs), name, None)
        if ours is not None:
            return ours(*args, **kwargs)
    title = f"{public_name(type(theirs))}.{name}"
    return call_with_plain(getattr(theirs, name), title, USE_DATA_HINT, args, kwargs)


def _kept(theirs: Any, make: Maker) -> ScipyObject:
    """What stands for an object of SciPy's that nothing else keeps alive."""
    return ScipyObject(lambda: theirs, make)


def drop_in_of_result(y: Any) -> Any:
    """The drop-in for an object that SciPy has just made, which it keeps alive."""
    found = object_drop_in(y)
    return _kept(y, found._make) if type(found) is ScipyObject else found
