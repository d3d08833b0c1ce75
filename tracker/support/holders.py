"""Where Python objects hold an object: items of dicts and lists, closure cells, attributes."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from typing import Any, NamedTuple


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
            return holder.cell_contents
        return getattr(holder, key, None)

    def write(self, x: Any) -> None:
        holder, key = self
        if type(holder) in (dict, list):
            holder[key] = x
        elif type(holder) is types.CellType:
            holder.cell_contents = x
        else:
            object.__setattr__(holder, key, x)


def places_of(x: Any) -> Iterator[Place]:
    """The places where an object is held that can be given another one. It looks at all objects
    that the garbage collector knows: a dict of nothing but arrays is none of them."""
    for holder in gc.get_referrers(x):
        if type(holder) is dict or type(holder) is list:
            for key, held in [*(holder.items() if type(holder) is dict else enumerate(holder))]:
                if held is x:
                    yield Place(holder, key)
        elif type(holder) is types.CellType:
            yield Place(holder, None)
        elif not isinstance(holder, (type, types.FrameType, types.FunctionType, tuple)):
            for name in _attributes(holder, x):
                yield Place(holder, name)


def _attributes(holder: Any, x: Any) -> Iterator[str]:
    """The names under which an object has another one, in its dict or in slots."""
    own = getattr(holder, "__dict__", None)
    if type(own) is dict:
        yield from [name for name, held in own.items() if held is x]
    for cls in type(holder).__mro__:
        for name, kind in vars(cls).items():
            is_slot = type(kind) is types.MemberDescriptorType
            if is_slot and getattr(holder, name, None) is x:
                yield name
