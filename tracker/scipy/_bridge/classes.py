"""Classes that stand for SciPy's: `DropIn`, their base, and `ScipyClass`, their metaclass.

A class defines what tracked values may enter. Everything else is SciPy's: calls without tracked
arguments make SciPy's object (`fallback.py`), and attributes that are not defined here are
those of SciPy's class or object, which take plain numbers and refuse tracked ones by name.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import types
from collections.abc import Collection
from typing import Any, ClassVar

from tracker.scipy._bridge.fallback import (
    MAKERS,
    USE_DATA_HINT,
    call_with_plain,
    is_tracked,
    no_derivative_rule,
    public_name,
    refuse_tracked,
)

_NOT_OF_INSTANCES = (classmethod, staticmethod, types.ClassMethodDescriptorType)


class ScipyClass(type):
    """The class of classes that stand for SciPy's `_theirs`. Classes derived from these are the
    user's."""

    _theirs: Any
    _holds_tracked: bool
    _instead: dict[str, str]

    def _stands_for(cls) -> Any:
        return vars(cls).get("_theirs")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        theirs: Any = cls._stands_for()
        if theirs and cls._holds_tracked:
            computes = cls.__init__ is not object.__init__  # type: ignore[misc]
            if not computes or not is_tracked(*args, *kwargs.values()):
                return call_with_plain(theirs, public_name(theirs), USE_DATA_HINT, args, kwargs)
        return super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        found = getattr(cls._theirs, name)
        known = inspect.getattr_static(cls._theirs, name)
        if inspect.isroutine(known) and not isinstance(known, _NOT_OF_INSTANCES):
            return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
        title = f"{public_name(cls._theirs)}.{name}"
        return forwarded(found, title, cls._instead.get(name, USE_DATA_HINT))

    def __instancecheck__(cls, x: Any) -> bool:
        theirs: Any = cls._stands_for()
        return super().__instancecheck__(x) or bool(theirs and isinstance(x, theirs))

    def __subclasscheck__(cls, other: type) -> bool:
        theirs: Any = cls._stands_for()
        return super().__subclasscheck__(other) or bool(theirs and issubclass(other, theirs))


class DropIn(metaclass=ScipyClass):
    """An object of a class that stands for SciPy's. `_instead` says, by the name of an attribute
    that tracked objects do not have, what to type."""

    _theirs: Any = None
    _holds_tracked = True  # all objects; others compute with plain numbers, too
    _instead: ClassVar[dict[str, str]] = {}

    def _as_scipy(self) -> Any:
        """SciPy's object of the same plain numbers."""
        raise no_derivative_rule(public_name(self._theirs))

    def __getattr__(self, name: str) -> Any:
        theirs: Any = type(self)._theirs
        if name.startswith("_") or name not in _attributes(theirs) | self._instead.keys():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        title = f"{public_name(theirs)}.{name}"
        if not self._holds_tracked and not is_tracked(*vars(self).values()):
            return forwarded(getattr(self._as_scipy(), name), title)
        raise no_derivative_rule(title, self._instead.get(name, USE_DATA_HINT))


@functools.cache
def _attributes(cls: type) -> set[str]:
    """The attributes of a class, and those that its methods give its objects."""
    functions = [f for base in cls.__mro__ for f in vars(base).values() if inspect.isfunction(f)]
    code = itertools.chain.from_iterable(map(dis.get_instructions, functions))
    return {*dir(cls), *(each.argval for each in code if each.opname == "STORE_ATTR")}


def forwarded(found: Any, title: str, hint: str = USE_DATA_HINT) -> Any:
    """An attribute of SciPy's, which refuses tracked arguments if it is a function."""
    if not callable(found) or isinstance(found, type):
        return found
    return refuse_tracked(found, title, hint)


def with_state(cls: type, **state: Any) -> Any:
    """An object of ours with these attributes."""
    made: Any = object.__new__(cls)
    vars(made).update(state)
    return made


def constructors(module: types.ModuleType, known: Collection[str]) -> dict[str, Any]:
    """For classes of SciPy's module, besides those `known` by name, whose objects have drop-ins:
    classes that make these."""
    found = {}
    for name in module.__all__:
        cls = getattr(module, name)
        if (
            isinstance(cls, type)
            and name not in known
            and not MAKERS.keys().isdisjoint(cls.__mro__)
        ):
            home = f"tracker.{module.__name__}"
            space = {"_theirs": cls, "__doc__": cls.__doc__, "__module__": home}
            found[name] = ScipyClass(name, (DropIn,), space)
    return found
