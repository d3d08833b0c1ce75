"""Drop-ins for objects that plain code has made of SciPy's classes: splines, trees, factors.

`made_by_scipy` registers, for one of SciPy's classes, what makes an object of ours of one of
SciPy's. That is done for each call with tracked arguments, so that a change of SciPy's object
counts; calls without go to SciPy's object.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Collection
from typing import Any

from tracker.scipy._bridge.fallback import is_tracked

Maker = Callable[[Any], Any]
_MAKERS: dict[type, tuple[Maker, bool]] = {}  # and whether its objects stand for SciPy's


def made_by_scipy(cls: type, *, replaces: bool = False) -> Callable[[Maker], Maker]:
    """Decorator: what makes an object of ours of one of SciPy's class. `replaces` says that it may
    do so once, because SciPy's object does not change."""

    def register(make: Maker) -> Maker:
        _MAKERS[cls] = make, replaces
        return make

    return register


def object_drop_in(x: Any) -> Any:
    """The drop-in for an object of SciPy's; the object itself if there is none."""
    for cls in type(x).__mro__:
        if cls in _MAKERS:
            make, replaces = _MAKERS[cls]
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
        """For `isinstance`, with SciPy's class and with ours."""
        cls: Any = type(self._theirs())
        return _class_of_both(cls)

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
    return drop_in_of_result(getattr(theirs, name)(*args, **kwargs))


def _kept(theirs: Any, make: Maker) -> ScipyObject:
    """What stands for an object of SciPy's that nothing else keeps alive."""
    return ScipyObject(lambda: theirs, make)


@functools.cache
def _class_of_both(cls: Any) -> Any:
    """A subclass of SciPy's class, and of the one that stands for it."""
    home = ".".join(part for part in cls.__module__.split(".") if not part.startswith("_"))
    module = sys.modules.get(f"tracker.{home}")
    ours = None if module is None else vars(module).get(cls.__name__)
    if not isinstance(ours, type) or isinstance(ours, _Constructor):
        return cls
    return types.new_class(cls.__name__, (ours, cls))


def drop_in_of_result(y: Any) -> Any:
    """The drop-in for an object that SciPy has just made, which it keeps alive."""
    found = object_drop_in(y)
    return _kept(y, found._make) if type(found) is ScipyObject else found


def constructors(module: types.ModuleType, known: Collection[str]) -> dict[str, Any]:
    """For classes of SciPy's module, besides those `known` by name, whose objects have drop-ins:
    classes that make these."""
    found = {}
    for name in module.__all__:
        cls = getattr(module, name)
        if (
            isinstance(cls, type)
            and name not in known
            and not _MAKERS.keys().isdisjoint(cls.__mro__)
        ):
            home = f"tracker.{module.__name__}"
            space = {"_theirs": cls, "__doc__": cls.__doc__, "__module__": home}
            found[name] = _Constructor(name, (), space)
    return found


class _Constructor(type):
    _theirs: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return drop_in_of_result(cls._theirs(*args, **kwargs))

    def __getattr__(cls, name: str) -> Any:
        found = getattr(cls._theirs, name)
        if not inspect.ismethod(found):
            return found
        return lambda *args, **kwargs: drop_in_of_result(found(*args, **kwargs))

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls._theirs)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(getattr(other, "_theirs", other), cls._theirs)
