"""Where a loop keeps what its iterations carry: local names, attributes that its code stores, and
the parts of tuples that are there."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, TypeAlias

from tracker import tree
from tracker.support.cpython import frame_locals, set_frame_locals
from tracker.support.instances import class_attribute, instance_dict
from tracker.tree import Structure

Place: TypeAlias = str | tuple[Any, ...]  # a name; an object's id and attribute; a part of either
MISSING = object()


class Places:
    """The places of a loop, when an iteration begins. Tuples there have the same structure in all
    iterations, or are no longer told apart from other values."""

    def __init__(
        self, frame: FrameType, names: Iterable[str], attributes: Iterable[tuple[Any, str]]
    ) -> None:
        self.names = frozenset(names)
        self.attributes = {(id(x), name): (x, name) for x, name in attributes}
        self.structures: dict[Place, Structure] = {}
        for place, x in self._whole(frame).items():
            leaves, structure = tree.flatten(x, _is_no_tuple)
            if isinstance(x, tuple) and leaves:
                self.structures[place] = structure

    def _whole(self, frame: FrameType) -> dict[Place, Any]:
        local = frame_locals(frame)
        found: dict[Place, Any] = {name: local[name] for name in self.names if name in local}
        for place, (x, name) in self.attributes.items():
            if (value := own_attribute(x, name)) is not MISSING:
                found[place] = value
        return found

    def read(self, frame: FrameType) -> dict[Place, Any]:
        """What is there now."""
        found: dict[Place, Any] = {}
        for place, x in self._whole(frame).items():
            leaves, structure = tree.flatten(x, _is_no_tuple)
            if structure == self.structures.get(place):
                found.update({(place, at): leaf for at, leaf in enumerate(leaves)})
            else:
                found[place] = x
        return found

    def write(self, frame: FrameType, values: Mapping[Place, Any]) -> None:
        """Put values there; each part of a tuple, or none, has one."""
        whole = {place: x for place, x in values.items() if self._is_whole(place)}
        now = self._whole(frame)
        for place, structure in self.structures.items():
            leaves = tree.flatten(now[place], _is_no_tuple)[0] if place in now else []
            changed = [values.get((place, at), leaf) for at, leaf in enumerate(leaves)]
            if any(x is not leaf for x, leaf in zip(changed, leaves, strict=True)):
                whole[place] = tree.unflatten(structure, changed, now[place])
        set_frame_locals(frame, {name: x for name, x in whole.items() if isinstance(name, str)})
        for place, (x, name) in self.attributes.items():
            if place in whole:
                object.__setattr__(x, name, whole[place])

    def _is_whole(self, place: Place) -> bool:
        return place in self.names or place in self.attributes


def own_attribute(x: Any, name: str) -> Any:
    """What is stored in an object of a user class under a name; `MISSING` if nothing is."""
    if type(class_attribute(type(x), name)) is types.MemberDescriptorType:
        return getattr(x, name, MISSING)
    return instance_dict(x).get(name, MISSING)


def _is_no_tuple(x: Any) -> bool:
    return not isinstance(x, tuple)
