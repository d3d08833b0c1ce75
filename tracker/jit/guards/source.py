"""Sources: the places outside its arguments where code finds a value.

`jit/discovery/captured_state.py` finds the sources of a function; a signature has them after the
arguments, and native code reads them on each call.

Invariants: sources are equal when they mean the same place. A source keeps no object alive that can
be referenced weakly. Reading a source runs no user code.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

from tracker import tree
from tracker.jit.guards.constants import ConstantKey
from tracker.support.instances import cell_contents, class_attribute, instance_dict
from tracker.support.structs import field, record

MISSING: Any = object()
C_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)  # stored on the object


@record(frozen=True)
class Source:
    """A place outside its arguments where code finds a value; each kind is a subclass.

    label           how messages name the place
    is_append_only  the function only appends to the list there, or to the lists in the dict there
    is_flattened    the function stores dataclasses there, which are compared by their fields
    is_constant     an array there is a constant of the trace
    """

    is_atomic: ClassVar[bool] = False  # the value is never flattened
    is_read_only: ClassVar[bool] = False  # functions write nothing there

    holder: ConstantKey
    name: Any
    label: str = field(compare=False)
    is_append_only: bool = field(default_factory=bool, compare=False)
    is_flattened: bool = field(default_factory=bool, compare=False)
    is_constant: bool = field(default_factory=bool, compare=False)

    def read(self) -> Any:
        """The value now; MISSING if there is none."""
        holder = self.holder.value
        return MISSING if holder is None else self.read_from(holder)

    def read_from(self, holder: Any) -> Any:
        """The value that a holder has."""
        raise NotImplementedError

    def write(self, x: Any, on_holder: bool) -> None:
        """Store a value, or delete it if it is MISSING; `on_holder`: on the holder, not on its
        class."""
        raise NotImplementedError

    def replace_if_unchanged(self, old: Any, new: Any) -> None:
        """Replace a value, unless another thread has replaced it: nothing is called between test
        and store, so Python switches to no other thread."""
        raise NotImplementedError

    @property
    def is_on_holder(self) -> bool:
        """Whether the value is stored on the holder itself: an attribute may be inherited from its
        class."""
        return True

    @property
    def class_source(self) -> Source | None:
        """The source on the class that the value is inherited from; None if it is stored on the
        holder."""
        return None


@record(frozen=True)
class CellSource(Source):
    """The contents of a closure cell."""

    def read_from(self, holder: Any) -> Any:
        return cell_contents(holder, MISSING)

    def write(self, x: Any, on_holder: bool) -> None:
        if x is MISSING:
            del self.holder.value.cell_contents
        else:
            self.holder.value.cell_contents = x

    def replace_if_unchanged(self, old: Any, new: Any) -> None:
        cell = self.holder.value
        if cell.cell_contents is old:
            cell.cell_contents = new


@record(frozen=True)
class ItemSource(Source):
    """An item of a dict: a global, a default, a key of the environment."""

    def read_from(self, holder: Any) -> Any:
        return holder.get(self.name, MISSING)

    def write(self, x: Any, on_holder: bool) -> None:
        if x is MISSING:
            self.holder.value.pop(self.name, None)
        else:
            self.holder.value[self.name] = x

    def replace_if_unchanged(self, old: Any, new: Any) -> None:
        items = self.holder.value
        if items[self.name] is old:
            items[self.name] = new


@record(frozen=True)
class ContextVarSource(Source):
    """The value of a context variable in the present context."""

    def read_from(self, holder: Any) -> Any:
        try:
            return holder.get()  # maybe its default
        except LookupError:
            return MISSING

    def write(self, x: Any, on_holder: bool) -> None:
        if x is not MISSING:
            self.holder.value.set(x)

    def replace_if_unchanged(self, old: Any, new: Any) -> None:
        if self.read() is old:
            self.holder.value.set(new)


@record(frozen=True)
class AttributeSource(Source):
    """An attribute of an object, class or function."""

    def read_from(self, holder: Any) -> Any:
        return getattr(holder, self.name, MISSING)

    def write(self, x: Any, on_holder: bool) -> None:
        holder = self.holder.value
        is_inherited = class_attribute(type(holder), self.name) is x
        if x is MISSING or (not on_holder and self.is_on_holder and is_inherited):
            builtin_attribute_method(holder, "__delattr__")(holder, self.name)
        elif on_holder and not isinstance(holder, (type, functools.partial)):
            builtin_attribute_method(holder, "__setattr__")(holder, self.name, x)
        else:
            _set_attribute(holder, self.name, x)

    def replace_if_unchanged(self, old: Any, new: Any) -> None:
        holder = self.holder.value
        if getattr(holder, self.name, MISSING) is old:
            _set_attribute(holder, self.name, new)

    @property
    def is_on_holder(self) -> bool:
        holder = self.holder.value
        if isinstance(holder, type) or self.name in instance_attributes(holder):
            return True
        return isinstance(class_attribute(type(holder), self.name), C_DESCRIPTORS)

    @property
    def class_source(self) -> Source | None:
        if self.is_on_holder:
            return None
        cls = _defining_class(type(self.holder.value), self.name)
        return None if cls is None else AttributeSource(ConstantKey(cls), self.name, self.label)


@record(frozen=True)
class FunctionSource(Source):
    """The code or the defaults of a function, compared by identity."""

    is_atomic = is_read_only = True

    def read_from(self, holder: Any) -> Any:
        return getattr(holder, self.name, MISSING)


@record(frozen=True)
class TypeSource(Source):
    """The class of an object."""

    is_atomic = True

    def read_from(self, holder: Any) -> Any:
        return type(holder)

    def write(self, x: Any, on_holder: bool) -> None:
        object.__setattr__(self.holder.value, "__class__", x)


@record(frozen=True)
class ShadowSource(Source):
    """Which of the names in `name` are instance attributes, shadowing the class; MISSING: none."""

    is_atomic = True

    def read_from(self, holder: Any) -> Any:
        own = instance_dict(holder)
        return tuple(name for name in self.name if name in own) or MISSING

    def write(self, x: Any, on_holder: bool) -> None:
        for name in self.read():
            object.__delattr__(self.holder.value, name)


@record(frozen=True)
class ClassGuardSource(Source):
    """A class, guarded for its attributes under the names in `name` (see `class_guard.py`)."""

    is_atomic = is_read_only = True

    def read_from(self, holder: Any) -> Any:
        return holder


@record(frozen=True)
class NamespaceSource(Source):
    """The values under the names in `name` of a dict that hardly changes: a library's module, or
    globals that do not exist."""

    is_atomic = is_read_only = True

    def read_from(self, holder: Any) -> Any:
        return tuple(holder.get(name, MISSING) for name in self.name)


@record(frozen=True)
class TokenSource(Source):
    """What a function returns: the cache token of abstract classes, how often a cache was
    cleared."""

    is_atomic = is_read_only = True

    def read_from(self, holder: Any) -> Any:
        return holder()


@record(frozen=True)
class ContentsSource(TokenSource):
    """The contents of an object that is compared by these."""

    is_read_only = False

    def write(self, x: Any, on_holder: bool) -> None:
        self.holder.value.restore(x)


_Root = TypeVar("_Root")
SourcePath: TypeAlias = tuple[Source, tuple[int, ...]]  # from a source to a leaf of its value


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


def is_data_descriptor(raw: Any) -> bool:
    """Whether a raw attribute of a class comes before those of its objects."""
    return hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__")


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
    return path[0], (*path[1], at)
