"""Where Python objects hold an object: items of dicts and lists, closure cells, attributes."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from tracker.support.frames.cpython import C_DATA
from tracker.support.instances import cell_contents, instance_dict, slots


class Place(NamedTuple):
    """An item of a dict or a list, the contents of a cell, or an attribute.

    key  None of a cell; the name of an attribute
    """

    holder: Any
    key: Any

    def read(self) -> Any:
        """What is there; None if nothing is."""
        holder, key = self
        if type(holder) is dict:
            return holder.get(key)
        if type(holder) is list:
            return holder[key] if key < len(holder) else None
        if type(holder) is types.CellType:
            return cell_contents(holder)
        return vars(holder).get(key) if isinstance(holder, type) else getattr(holder, key, None)

    def write(self, x: Any) -> None:
        holder, key = self
        if type(holder) in (dict, list):
            holder[key] = x
        elif type(holder) is types.CellType:
            holder.cell_contents = x
        else:
            kind = type if isinstance(holder, type) else object
            kind.__setattr__(holder, key, x)


def attribute_place(x: Any, name: str) -> Place | None:
    """Where an attribute of an object is: in the object, or in a class of which it has it."""
    own = instance_dict(x)
    if name in own and type(own) is dict:
        return Place(own, name)
    for cls in (x if isinstance(x, type) else type(x)).__mro__:
        if name in vars(cls):
            is_slot = type(vars(cls)[name]) is types.MemberDescriptorType
            return Place(x if is_slot else cls, name)
    return None


def places_of(x: Any) -> Iterator[Place]:
    """The places where an object is held that can be given another one. It looks at all objects
    that the garbage collector knows: a dict of nothing but arrays is none of them."""
    for holder in gc.get_referrers(x):
        if type(holder) is dict or type(holder) is list:
            owner = _class_of(holder) or holder
            for key, held in [*(holder.items() if type(holder) is dict else enumerate(holder))]:
                if held is x:
                    yield Place(owner, key)
        elif type(holder) is types.CellType:
            yield Place(holder, None)
        elif not isinstance(holder, (type, types.FrameType, types.FunctionType, tuple)):
            yield from attributes_holding(holder, x)


def _class_of(holder: Any) -> type | None:
    """The class whose attributes a dict has. It caches what is assigned to it."""
    if type(holder) is not dict or "__doc__" not in holder or "__builtins__" in holder:
        return None  # each class has a `__doc__`; globals have one, too, and `__builtins__`
    return next((each for each in gc.get_referrers(holder) if isinstance(each, type)), None)


# Their objects know of an array more than the attribute says: a pointer in C has its address, a
# view of ours its history.
_PACKAGES = (__name__.partition(".")[0], "numpy")


def attributes_holding(holder: Any, x: Any) -> Iterator[Place]:
    """The attributes of an object that are another one, in its dict or in slots."""
    cls = type(holder)
    if issubclass(cls, C_DATA) or cls.__module__.partition(".")[0] in _PACKAGES:
        return
    own = instance_dict(holder)
    owner = own if type(own) is dict else holder  # a class shows its dict, but not to write into
    yield from [Place(owner, name) for name, held in own.items() if held is x]
    yield from [Place(holder, name) for name in slots(cls) if getattr(holder, name, None) is x]
