"""How pickle and copy find a function: by its name in a module, or by how it was made.

Drop-ins are found by the name that `at_home` gives them. What a transform makes (`made_by`) is
found by name where it was decorated, and else made again from the function that it was made of.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

from tracker.errors import UnsupportedError, message

_F = TypeVar("_F", bound=Callable[..., Any])


def at_home(function: _F, module: str, name: str) -> _F:
    """The function, which pickle is told to find under this name in this module."""
    function.__module__, function.__qualname__ = module, name
    return function


def named(module: str, name: str) -> Any:
    """The object with this name: what objects that are no functions are reduced to."""
    return getattr(importlib.import_module(module), name)


class MadeFunction(functools.partial[Any]):
    """A function that a transform has made of another one; `made_by` makes it.

    It has the name, signature and `__wrapped__` of its `func`, a Python function; or `func` is
    called with the object of a method before its arguments, and then shows as a bound method. (The
    base class makes calls as fast as those of a Python function: 30 ns more.)
    """

    __slots__ = ("recipe",)  # no part of `__dict__`, which `functools.wraps` copies
    if TYPE_CHECKING:
        recipe: tuple[Any, ...]  # what makes it, and the arguments for that: first, a function

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__" and self.args:  # has one argument more
            raise AttributeError(name)
        return getattr(self.func, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __set_name__(self, owner: type, name: str) -> None:
        """A decorated method has the name by which pickle finds it."""
        if getattr(self.recipe[1], "__name__", "") == name:
            self.__name__ = name

    def __reduce__(self) -> Any:
        make, of, *given = self.recipe
        return reference(self, of, sys._getframe(1)) or (make, (of, *given))

    def __repr__(self) -> str:
        return repr(MethodType(self.func, *self.args) if self.args else self.func)


def made_by(
    function: Callable[..., Any], make: Callable[..., Any], of: Any, *given: Any
) -> MadeFunction:
    """A function that pickle makes again by `make(of, *given)`, unless it is what the name of `of`
    stands for, as if it was decorated."""
    made = MadeFunction(function)
    made.recipe = (make, of, *given)
    made.__module__ = getattr(of, "__module__", function.__module__)
    made.__doc__ = function.__doc__
    return made


def bound_by(method: MethodType, make: Callable[..., Any], of: Any, *given: Any) -> MadeFunction:
    """As `made_by`, for the derivative of a method."""
    made = MadeFunction(method.__func__, method.__self__)
    made.recipe = (make, of, *given)
    return made


def found_by_name(module: str | None, qualname: str) -> Any:
    """What a name stands for in a module now; None if it does not, or the module is not loaded."""
    found: Any = sys.modules.get(module or "")
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def reference(made: Any, of: Any, pickler: FrameType | None) -> str | None:
    """The name by which pickle finds what was made of a function, if it was decorated; None if the
    name stands for something else. Cloudpickle, if it runs in the frame `pickler`, copies what a
    worker cannot import by value (that of `__main__`, first of all): then so do we."""
    for named in (made, inspect.unwrap(of)):
        name = str(getattr(named, "__qualname__", ""))
        if found_by_name(made.__module__, name) is made:
            return None if _is_copied(made.__module__, pickler) else name
    return None


def _is_copied(module: str, pickler: FrameType | None) -> bool:
    """Whether cloudpickle, or a copy of it, is running, and copies the functions of a module."""
    if pickler is None or "cloudpickle" not in pickler.f_globals.get("__name__", ""):
        return False
    registered = pickler.f_globals.get("list_registry_pickle_by_value", set)()
    return module == "__main__" or any(f"{module}.".startswith(f"{x}.") for x in registered)


def refuse_pickling(what: str, instead: str) -> Any:
    """Raise an error in the place of `__reduce__`."""
    raise UnsupportedError(message(f"{what} cannot be pickled or copied", instead))
