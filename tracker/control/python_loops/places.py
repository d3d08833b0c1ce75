"""Where a loop keeps what its iterations carry: local names, attributes and items that its code
stores, and the parts of containers that are there.

Tuples are known by their parts. So is a list, a dict or an object of a user class that iterations
bind anew (`state = state.step()`), or store into, once the loop has seen one do so.
"""

from __future__ import annotations

import copy
import operator
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, TypeAlias

from tracker import tree
from tracker.control.python_loops.body.affine_subscripts import NotRollable
from tracker.support.frames.cpython import frame_locals, set_frame_locals
from tracker.support.instances import (
    attributes,
    class_attribute,
    instance_dict,
    is_user_class,
    new_with_attributes,
)
from tracker.support.structs import record

# A name; an object's id and attribute; the id of a list or dict alone; a place, and the key of a
# part of the container there.
Place: TypeAlias = str | tuple[Any, ...]
MISSING = object()
SEQUENCES = (list, deque)
MAPPINGS = (dict, defaultdict, OrderedDict, Counter)
MAX_PARTS = 200  # of a list, dict or object that is known by its parts


@record(frozen=True, eq=False)
class _Container:
    """A container at a place when an iteration begins, and its parts."""

    container: Any
    parts: dict[Any, Any]


class Places:
    """The places of a loop, when an iteration begins. Containers there have the same structure in
    all iterations, or are no longer told apart from other values.

    known     the places of lists, dicts and objects that are known by their parts; None: all
    replaced  after `check`: those of them to which an iteration has given another container, which
              it has made, with both
    """

    def __init__(
        self,
        frame: FrameType,
        names: Iterable[str],
        attributes: Iterable[tuple[Any, str]],
        containers: Iterable[Any] = (),
        known: Container[Place] | None = None,
    ) -> None:
        self.names = sorted(names)
        self.attributes = {(id(x), name): (x, name) for x, name in attributes}
        self.known = known
        self.stored: list[tuple[Any, Any, Any, Any]] = []
        self.replaced: dict[Place, tuple[Any, Any]] = {}
        self.containers: dict[Place, Any] = {(id(x),): x for x in containers}
        while not self._expand_all(frame):
            pass

    def _expand_all(self, frame: FrameType) -> bool:
        """Find the containers; returns whether what they hold has no other places."""
        self.expanded: dict[Place, _Container] = {}
        self.holders: dict[int, Place] = {}
        for place, x in self._whole(frame).items():
            self._expand(place, x)
        for place, (x, _) in self.attributes.items():
            if id(x) in self.holders:
                del self.attributes[place]
                return False
        return True

    def _expand(self, place: Place, x: Any) -> None:
        is_known = (
            self.known is None
            or isinstance(x, tuple)
            or place in self.known
            or place in self.containers
        )
        parts = parts_of(x) if is_known and id(x) not in self.holders else None
        if not parts:
            return
        if not isinstance(x, tuple):
            self.holders[id(x)] = place
        self.expanded[place] = _Container(x, parts)
        for key, part in parts.items():
            self._expand((place, key), part)

    def _whole(self, frame: FrameType) -> dict[Place, Any]:
        local = frame_locals(frame)
        found: dict[Place, Any] = {name: local[name] for name in self.names if name in local}
        for place, (x, name) in self.attributes.items():
            if (value := own_attribute(x, name)) is not MISSING:
                found[place] = value
        return {**found, **self.containers}

    def _parts(self, place: Place, x: Any) -> dict[Any, Any] | None:
        """The parts of a container, if it has the structure that the one there had."""
        was = self.expanded.get(place)
        parts = parts_of(x) if was is not None and type(x) is type(was.container) else None
        return parts if was is not None and parts and [*parts] == [*was.parts] else None

    def read(self, frame: FrameType) -> dict[Place, Any]:
        """What is there now."""
        found: dict[Place, Any] = {}
        for place, x in self._whole(frame).items():
            self._read(place, x, found)
        return found

    def _read(self, place: Place, x: Any, found: dict[Place, Any]) -> None:
        parts = self._parts(place, x)
        if parts is None:
            found[place] = x
            return
        for key, part in parts.items():
            self._read((place, key), part, found)

    def write(self, frame: FrameType, values: Mapping[Place, Any]) -> None:
        """Put values there; each part of a container, or none, has one."""
        whole = self._whole(frame)
        found = {place: self._written(place, x, values) for place, x in whole.items()}
        found = {place: x for place, x in found.items() if x is not whole[place]}
        set_frame_locals(frame, {name: x for name, x in found.items() if isinstance(name, str)})
        for place, (x, name) in self.attributes.items():
            if place in found:
                object.__setattr__(x, name, found[place])

    def _written(self, place: Place, x: Any, values: Mapping[Place, Any]) -> Any:
        """What is to be at a place instead of `x`: the same container, unless it is a tuple."""
        if place in values:
            return values[place]
        parts = self._parts(place, x)
        if parts is None:
            return x
        new = {key: self._written((place, key), part, values) for key, part in parts.items()}
        if not isinstance(x, tuple):
            changed = ((key, y) for key, y in new.items() if y is not parts[key])
            self.stored += [(x, key, parts[key], y) for key, y in changed]
        return with_parts(x, new)

    def is_fixed(self, place: Place) -> bool:
        """Whether a number there is part of a list, dict or object, and has not changed yet."""
        if self.known is None or place in self.known:
            return False
        while isinstance(place, tuple) and len(place) == 2:
            place = place[0]
            if place in self.expanded and id(self.expanded[place].container) in self.holders:
                return True
        return False

    def take_back(self, frame: FrameType) -> None:
        """After an iteration: give containers that it has replaced by others what `write` found."""
        ids = self.containers_now(frame)
        for x, key, was, y in self.stored:
            if id(x) not in ids and _parts_now(x).get(key) is y:
                _store(x, key, was)

    def check(self, frame: FrameType, reached: Container[int]) -> None:
        """After `take_back`: find which containers the iteration has replaced. `reached`: the ids
        of those that were somewhere before it.

        Refuses one that has other names, and one that changes before another takes its place.
        """
        now = dict(self._containers(frame))
        if len({id(x) for x in now.values()}) < len(now):
            raise NotRollable("one object is in two places")
        for place, x in now.items():
            was = self.expanded[place]
            if x is was.container:
                continue
            if id(x) in reached:
                raise NotRollable(f"{place} is an object that has another name")
            parts = _parts_now(was.container)
            if [*parts] != [*was.parts] or not are_same([*parts.values()], [*was.parts.values()]):
                raise NotRollable(f"{place} changes before it is bound anew")
            self.replaced[place] = was.container, x

    def containers_now(self, frame: FrameType) -> set[int]:
        """The ids of the lists, dicts and objects that are known by their parts."""
        return {id(x) for _, x in self._containers(frame)}

    def tuples(self, frame: FrameType) -> dict[Place, Any]:
        """The tuples that are there now."""
        return dict(self._containers(frame, of_tuples=True))

    def _containers(self, frame: FrameType, of_tuples: bool = False) -> Iterator[tuple[Place, Any]]:
        stack = [*self._whole(frame).items()]
        while stack:
            place, x = stack.pop()
            parts = self._parts(place, x)
            if parts is not None:
                if isinstance(x, tuple) is of_tuples:
                    yield place, x
                stack += [((place, key), part) for key, part in parts.items()]


def parts_of(x: Any) -> dict[Any, Any] | None:
    """The parts of a container, by keys; None for anything else, and for large ones."""
    cls = type(x)
    if not (cls is tuple or tree.is_namedtuple(cls) or is_mutable_container(x)):
        return None
    parts = _parts_now(x)
    if len(parts) > MAX_PARTS or any(type(key) not in (str, int) for key in parts):
        return None
    return parts


def is_mutable_container(x: Any) -> bool:
    """Whether an object is a list, a deque, a dict, or of a user class."""
    return type(x) in (*SEQUENCES, *MAPPINGS) or is_user_class(type(x))


def _parts_now(x: Any) -> dict[Any, Any]:
    if type(x) in SEQUENCES or isinstance(x, tuple):
        return dict(enumerate(x))
    return dict(x) if type(x) in MAPPINGS else attributes(x)


def with_parts(x: Any, parts: Mapping[Any, Any]) -> Any:
    """The container with these parts: the same one, unless it is a tuple."""
    before = _parts_now(x)
    changed = [(key, part) for key, part in parts.items() if part is not before[key]]
    if changed and isinstance(x, tuple):
        return container_of(x, parts)
    for key, part in changed:
        _store(x, key, part)
    return x


def container_of(like: Any, parts: Mapping[Any, Any]) -> Any:
    """A container of the class of another one, with these parts."""
    cls = type(like)
    if isinstance(like, tuple):
        return tuple.__new__(cls, parts.values())
    if is_user_class(cls):
        return new_with_attributes(cls, [*parts], [*parts.values()])
    made = copy.copy(like)
    made.clear()
    if cls in MAPPINGS:
        made.update(parts)
    else:
        made.extend(parts.values())
    return made


def _store(x: Any, key: Any, value: Any) -> None:
    if type(x) in (*SEQUENCES, *MAPPINGS):
        x[key] = value
    else:
        object.__setattr__(x, key, value)


def are_same(now: Sequence[Any], was: Sequence[Any]) -> bool:
    """Whether containers held, and hold, the same objects."""
    return len(now) == len(was) and all(map(operator.is_, now, was))


def own_attribute(x: Any, name: str) -> Any:
    """What is stored in an object of a user class under a name; `MISSING` if nothing is."""
    if type(class_attribute(type(x), name)) is types.MemberDescriptorType:
        return getattr(x, name, MISSING)
    return instance_dict(x).get(name, MISSING)
