"""How pickle and copy find a function: by its name in a module, or by how it was made.

Drop-ins are found by the name that `at_home` gives them. What a transform makes (`made_by`) is
found by name where it was decorated, and else made again from the function that it was made of.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

from tracker.errors import UnsupportedError

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

    It has the name, signature and `__wrapped__` of its `func`, a Python function. (The base class
    makes calls as fast as those of a Python function: 30 ns more.)
    """

    __slots__ = ("recipe",)  # no part of `__dict__`, which `functools.wraps` copies
    if TYPE_CHECKING:
        recipe: tuple[Any, ...]  # what makes it, and the arguments for that: first, a function

    def __getattr__(self, name: str) -> Any:
        return inspect.signature(self.func) if name == "__signature__" else getattr(self.func, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __set_name__(self, owner: type, name: str) -> None:
        """A decorated method has the name by which pickle finds it."""
        if getattr(self.recipe[1], "__name__", "") == name:
            self.__name__ = name

    def __reduce__(self) -> Any:
        return reduction(self, sys._getframe(1), *self.recipe)

    def __copy__(self) -> MadeFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> MadeFunction:
        return self

    def __repr__(self) -> str:
        return repr(self.func)


class MadeMethod(MadeFunction):
    """The derivative of a method: `func` is called with the object; `bound_by` makes it."""

    __slots__ = ()

    @property
    def method(self) -> MethodType:
        return MethodType(self.func, *self.args)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # has one argument more
            raise AttributeError(name)
        return (
            inspect.signature(self.method) if name == "__signature__" else getattr(self.func, name)
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> MadeFunction:
        """That of a copy of the object, as of any method."""
        make, of, *given = self.recipe
        return make(copy.deepcopy(of, memo), *given)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return repr(self.method)


class ResidualFunction(MadeFunction):
    """A pullback or pushforward: `holding_residuals` makes it."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        what = self.__name__.partition("_of_")[0]
        raise UnsupportedError(
            f"{self!r} cannot be pickled: it holds what the function has computed at its arguments",
            f"Pickle the function and the arguments, and call tracker.{what}(f, x) where they "
            "are loaded",
        )


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


def bound_by(method: MethodType, make: Callable[..., Any], of: Any, *given: Any) -> MadeMethod:
    """As `made_by`, for the derivative of a method."""
    made = MadeMethod(method.__func__, method.__self__)
    made.recipe = (make, of, *given)
    made.__doc__ = method.__doc__  # without attributes, another `functools.partial` unwraps it
    return made


def holding_residuals(function: Callable[..., Any]) -> ResidualFunction:
    """The same function, which says what to do instead where it is pickled."""
    made = ResidualFunction(function)
    made.recipe = (holding_residuals, function)
    return made


def part_of(make: Callable[[], Any], at: int) -> Any:
    """One of the results of a call: the recipe of a function that is made with another one."""
    return make()[at]


def found_by_name(module: str | None, qualname: str) -> Any:
    """What a name stands for in a module now; None if it does not, or the module is not loaded."""
    found: Any = sys.modules.get(module or "")
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def reduction(
    made: Any, pickler: FrameType | None, make: Callable[..., Any], of: Any, *given: Any
) -> str | tuple[Any, ...]:
    """What `__reduce__` gives of a function made by `make(of, *given)`: the name by which pickle
    finds it, if it was decorated, else how to make it again. Cloudpickle, if it runs in the frame
    `pickler`, copies what a worker cannot import (that of `__main__`, first of all): so do we."""
    module = made.__module__
    for each in (made, inspect.unwrap(of)):
        name = str(getattr(each, "__qualname__", ""))
        if found_by_name(module, name) is made and not _is_copied(module, pickler):
            return name
    if type(of) is FunctionType and not _copies_functions(pickler):
        _require_name(made, of)
    return make, (of, *given)


def _require_name(made: Any, f: FunctionType) -> None:
    found = found_by_name(f.__module__, f.__qualname__)
    if found is not f:
        why = "is not there" if found is None else f"is another object, {found!r}"
        raise UnsupportedError(
            f"{made!r} cannot be pickled: pickle finds functions by their names, and "
            f"{f.__qualname__} of the module {f.__module__} {why}",
            "Define the function at the top level of a module, under a name of its own, or use "
            "cloudpickle or joblib, which copy functions",
        )


def _copies_functions(pickler: FrameType | None) -> bool:
    """Whether what runs in this frame copies functions that have no name: cloudpickle, dill (which
    goes by way of pickle's code in Python), or the module `copy`."""
    name = "" if pickler is None else str(pickler.f_globals.get("__name__", ""))
    return name in ("pickle", "copy") or "cloudpickle" in name or name.startswith("dill")


def _is_copied(module: str, pickler: FrameType | None) -> bool:
    """Whether cloudpickle, or a copy of it, is running, and copies the functions of a module."""
    if pickler is None or "cloudpickle" not in pickler.f_globals.get("__name__", ""):
        return False
    registered = pickler.f_globals.get("list_registry_pickle_by_value", set)()
    return module == "__main__" or any(f"{module}.".startswith(f"{x}.") for x in registered)
