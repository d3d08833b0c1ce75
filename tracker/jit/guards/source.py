"""Sources: the places outside its arguments where code finds a value.

`jit/discovery/discovery.py` finds the sources of a function; a signature has them after the
arguments, and native code reads them on each call.

Invariants: sources are equal when they mean the same place. A source keeps no object alive that can
be referenced weakly. Reading a source runs no user code.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from tracker import tree
from tracker.jit.guards.constants import ConstantKey
from tracker.support.instances import instance_dict
from tracker.support.structs import field, record

MISSING: Any = object()
C_DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)  # which keep it in the object


SourceKind: TypeAlias = Literal[
    "cell", "item", "attribute", "variable", "slot", "class", "own", "lent", "names", "token"
]


@record(frozen=True)
class Source:
    """The content of a cell, `holder[name]` of a dict, the attribute `name`, what a context
    variable is in this context, or a slot of a function, known by identity: its code, its defaults;
    the class of an object, which of the names in `name` its own dict has (none, as a rule), or what
    a class lends under such names (`class_guard.py`); what a dict that hardly changes, a library's
    or the globals where nothing stands, has under the names `name`; a token: that of abstract
    classes, or how often a cache was emptied (`jit/discovery/lru_caches.py`).

    `label` says to people what it is. `is_append_only`: the function appends to the list there, or
    to those in the dict there, and does not look at it. `is_flattened`: the function puts
    dataclasses there, which are known by their fields. `is_constant`: an array there is a constant
    of the trace.
    """

    kind: SourceKind
    holder: ConstantKey
    name: Any
    label: str = field(compare=False)
    is_append_only: bool = field(default_factory=bool, compare=False)
    is_flattened: bool = field(default_factory=bool, compare=False)
    is_constant: bool = field(default_factory=bool, compare=False)

    def read(self) -> Any:
        """The value now; MISSING if there is none."""
        holder = self.holder.value
        if self.kind == "cell":
            try:
                return holder.cell_contents
            except ValueError:
                return MISSING
        if self.kind == "item":
            return holder.get(self.name, MISSING)
        if self.kind == "variable":
            try:
                return MISSING if holder is None else holder.get()  # maybe what it is to begin with
            except LookupError:
                return MISSING
        if holder is None:
            return MISSING
        if self.kind == "names":
            return tuple(holder.get(name, MISSING) for name in self.name)
        if self.kind == "token":
            return holder()
        if self.kind == "class":
            return type(holder)
        if self.kind == "own":
            own = instance_dict(holder)
            return tuple(name for name in self.name if name in own) or MISSING
        return holder if self.kind == "lent" else getattr(holder, self.name, MISSING)

    @property
    def is_on_holder(self) -> bool:
        """Whether the value is stored on the holder itself: an attribute may be inherited from its
        class."""
        holder = self.holder.value
        if self.kind != "attribute" or isinstance(holder, type):
            return True
        return self.name in instance_attributes(holder) or isinstance(
            class_attribute(type(holder), self.name), C_DESCRIPTORS
        )

    @property
    def class_source(self) -> Source | None:
        """The source on the class that the value is inherited from; None if it is stored on the
        holder."""
        if self.is_on_holder:
            return None
        cls = _defining_class(type(self.holder.value), self.name)
        return None if cls is None else Source(self.kind, ConstantKey(cls), self.name, self.label)

    def write(self, x: Any, on_holder: bool) -> None:
        """Store a value, or delete it if it is MISSING; `on_holder`: on the holder, not on its
        class."""
        holder = self.holder.value
        if self.kind == "cell":
            if x is MISSING:
                del holder.cell_contents
            else:
                holder.cell_contents = x
        elif self.kind == "item":
            if x is MISSING:
                holder.pop(self.name, None)
            else:
                holder[self.name] = x
        elif self.kind == "variable":
            if x is not MISSING:
                holder.set(x)
        elif self.kind == "own":
            for name in self.read():
                object.__delattr__(holder, name)
        elif self.kind == "class":
            object.__setattr__(holder, "__class__", x)
        elif x is MISSING or (not on_holder and self.is_on_holder and self._is_class_attribute(x)):
            builtin_attribute_method(holder, "__delattr__")(holder, self.name)
        elif on_holder and not isinstance(holder, (type, functools.partial)):
            builtin_attribute_method(holder, "__setattr__")(holder, self.name, x)
        else:
            _set_attribute(holder, self.name, x)

    def _is_class_attribute(self, x: Any) -> bool:
        """Whether the holder inherits `x` from its class."""
        return class_attribute(type(self.holder.value), self.name) is x

    def replace_if_unchanged(self, old: Any, new: Any) -> None:
        """Replace a value, unless another thread has replaced it: nothing is called between test
        and store, so Python switches to no other thread."""
        holder = self.holder.value
        if self.kind == "cell":
            if holder.cell_contents is old:
                holder.cell_contents = new
        elif self.kind == "item":
            if holder[self.name] is old:
                holder[self.name] = new
        elif self.kind == "variable":
            if self.read() is old:
                holder.set(new)
        elif getattr(holder, self.name, MISSING) is old:
            _set_attribute(holder, self.name, new)


_Root = TypeVar("_Root")
SourcePath: TypeAlias = tuple[Source, tuple[int, ...]]  # a place, and the way from there to a leaf


def has_instance_dict(x: Any) -> bool:
    """Whether an object has a `__dict__`. A user's `__getattr__` might answer to any name; then the
    classes are asked."""
    if not hasattr(type(x), "__getattr__"):
        return hasattr(x, "__dict__")
    return any("__dict__" in vars(cls) for cls in type(x).__mro__)


def instance_attributes(x: Any) -> Mapping[str, Any]:
    """The attributes stored on an object itself."""
    return vars(x) if has_instance_dict(x) else {}


def builtin_attribute_method(x: Any, name: str) -> Callable[..., Any]:
    """The `__setattr__` or `__delattr__` in C of an object, which runs no user code.

    It is `object`'s, except for classes that store attributes elsewhere: `threading.local` keeps a
    dict for each thread.
    """
    found = (vars(cls)[name] for cls in type(x).__mro__ if name in vars(cls))
    return next(f for f in found if isinstance(f, types.WrapperDescriptorType))


def _defining_class(cls: type, name: str) -> type | None:
    """The first class in the MRO that defines an attribute; None if none does."""
    return next((c for c in cls.__mro__ if name in vars(c)), None)


def class_attribute(cls: type, name: str) -> Any:
    """The raw attribute of a class or its bases, without binding; None if there is none."""
    defining_class = _defining_class(cls, name)
    return None if defining_class is None else vars(defining_class)[name]


def _set_attribute(holder: Any, name: str, x: Any) -> None:
    """Set an attribute where it is stored: on the object, or on the class it is inherited from."""
    if isinstance(holder, functools.partial):
        parts = {"func": holder.func, "args": holder.args, "keywords": holder.keywords, name: x}
        holder.__setstate__((*parts.values(), vars(holder)))  # type: ignore[attr-defined]
    elif isinstance(holder, types.FunctionType):
        setattr(holder, name, x)
    else:
        cls = holder if isinstance(holder, type) else type(holder)
        own = not isinstance(holder, type) and name in instance_attributes(holder)
        defining_class = _defining_class(cls, name)
        if own:
            vars(holder)[name] = x
        elif defining_class is None or isinstance(vars(defining_class)[name], C_DESCRIPTORS):
            object.__setattr__(holder, name, x)
        else:
            type.__setattr__(defining_class, name, x)


def source_children(
    x: Any, flatten_dataclasses: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The (names, children) that a captured value is flattened into; None for a leaf.

    The attributes of a dataclass are sources of their own, unless `flatten_dataclasses`.
    """
    if is_plain_dataclass(x):
        return tree.children_of(x) if flatten_dataclasses else None
    if hasattr(type(x), "__dataclass_fields__") and not isinstance(x, (tuple, list, dict)):
        return None
    return ((), tuple(x)) if isinstance(x, deque) else tree.children_of(x)


def is_frozen_dataclass(x: Any) -> bool:
    """Whether an object is such a dataclass, and frozen."""
    return is_plain_dataclass(x) and bool(type(x).__dataclass_params__.frozen)


def is_plain_dataclass(x: Any) -> bool:
    """Whether an object is a dataclass with no state but its fields."""
    cls: Any = type(x)
    params = getattr(cls, "__dataclass_params__", None)
    if params is None or isinstance(x, (type, tuple, list, dict)):
        return False
    if not params.frozen and cls.__setattr__ is not object.__setattr__:
        return False
    return instance_dict(x).keys() <= cls.__dataclass_fields__.keys() and not any(
        isinstance(raw, functools.cached_property)
        for each in cls.__mro__
        for raw in vars(each).values()
    )


def child_path(path: tuple[_Root, tuple[int, ...]], at: int) -> tuple[_Root, tuple[int, ...]]:
    """The path of a child."""
    return path[0], (*path[1], at)
