"""State: what a function puts at the places it reads, and into the containers that it is given.

Owns: `Before`, what stood at places at one time, to compare with and to go back to; `updates_of`,
which says what a traced function has put where (`Update`), so that each call can do it again;
`carry_out`, which does it in Python (`jit/abi/state_writes.py` has machine code do it). A function
that counts, keeps a moving average or an optimiser's state is no other than one that returns these:
what it puts is a result, and what it reads an input. Start at `updates_of`.

Invariants: an update is what the plain function leaves, an object that is there already as itself;
where one trace cannot say what was put (an object made at each call, a container that stands in two
places, half of what was computed beside a view of it), there are no updates, and the trace is not
kept. Updates are done when nothing can fail any more, so that a failing guard has put nothing.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.jit.discovery.discovery import Reads
from tracker.jit.guards.constants import Static
from tracker.jit.guards.matching import leaf_nodes, structure_at
from tracker.jit.guards.signature import Log, Node, Signature, Update, apart_of
from tracker.jit.guards.source import (
    MISSING,
    Place,
    below,
    children_of,
    has_dict,
    is_frozen,
    is_record,
    lent,
    written_in_c,
)
from tracker.jit.tracing.inputs import Inputs
from tracker.jit.tracing.placeholder_swap import Containers, root_of, with_plain_keys
from tracker.jit.tracing.stability import at_places
from tracker.ops.shape.create import buffer
from tracker.random.draw_ops import Journal
from tracker.support.array_copies import own_copy, same_bytes
from tracker.support.instances import own_dict
from tracker.support.structs import record
from tracker.tape.tracked import Tracked
from tracker.tree import Structure

_Parts: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, type(...))
_LASTING = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc)
_FIXED = ("slot", "lent", "names", "token")  # places where a function puts nothing
_MANY = 2000  # comparisons of containers before each call
_KEYS = {str, bytes, int, float, bool, type(None)}
_MADE = {str, bytes, int, float, complex}


class Before:
    """What stands at places, and in the containers there, now; later, what stood there."""

    def __init__(self, places: Iterable[Place], arrays: bool = False) -> None:
        self.at = [(place, place.read(), place.is_own) for place in places]
        self.inside: dict[int, tuple[Any, _Parts]] = {}
        self.ways: dict[int, tuple[int, tuple[int, ...]]] = {}  # to the containers: which place
        self.arrays: list[tuple[Any, Any]] | None = [] if arrays else None
        for at, (_, x, _) in enumerate(self.at):
            self._look_into(x, (at, ()))

    def _look_into(self, x: Any, way: tuple[int, tuple[int, ...]]) -> None:
        if x is MISSING or id(x) in self.inside:
            return
        parts = children_of(x, self.at[way[0]][0].is_apart)
        if type(x) is np.ndarray and self.arrays is not None:
            self.arrays.append((x, own_copy(x)))
        elif parts is not None:
            self.inside[id(x)] = x, parts
            self.ways[id(x)] = way
            for at, child in enumerate(parts[1]):
                self._look_into(child, below(way, at))

    def is_known(self, x: Any) -> bool:
        """Whether it is a dataclass that can be changed and stood here: nothing like it will do."""
        return is_record(x) and not is_frozen(x) and id(x) in self._ids

    @functools.cached_property
    def _ids(self) -> set[int]:
        inside = (child for _, (_, children) in self.inside.values() for child in children)
        at = ((place.holder.value, was) for place, was, _ in self.at)
        return set(map(id, (*inside, *itertools.chain.from_iterable(at))))

    @property
    def is_past(self) -> bool:
        """Whether something else stands there by now."""
        inside = self.inside.values()
        found = ((place.read(), was) for place, was, _ in self.at if place.kind not in _FIXED)
        return not all(_stays(now, was) for now, was in found) or not all(
            _is_same(children_of(x, True), parts) for x, parts in inside
        )

    def restore(self) -> None:
        """Have it stand there again."""
        for array, held in self.arrays or ():
            if not same_bytes(array, held):
                array[...] = held
        for place, was, own in self.at:
            if place.kind not in _FIXED and not _stays(place.read(), was):
                place.put(was, own)
        for x, (names, children) in self.inside.values():
            if _is_same(children_of(x, True), (names, children)):
                continue
            if isinstance(x, (list, deque)):
                x.clear()
                x.extend(children)
            elif isinstance(x, dict):
                x.clear()
                x.update(zip(names, children, strict=True))
            elif is_record(x):
                for name, child in zip(names, children, strict=True):
                    object.__setattr__(x, name, child)


class Attempt(Journal):
    """A run of a function that may be abandoned: then what it drew and what it put where is taken
    back, and the function can run again. `arrays`: and what it wrote into arrays that it reads."""

    def __init__(self, reads: Reads, arrays: bool = False) -> None:
        super().__init__()
        self._before = Before(reads.places, arrays)
        self._stored = reads.stored
        self._names = [(x, frozenset(own_dict(x))) for x in reads.objects if _has_names(x)]

    def undo(self) -> None:
        super().undo()
        self._before.restore()
        for x, names in self._names:
            for name in (own_dict(x).keys() - names) & self._stored:
                written_in_c(x, "__delattr__")(x, name)

    @property
    def has_put(self) -> bool:
        """Whether something else stands there."""
        return self._before.is_past or any(
            not (own_dict(x).keys() - names).isdisjoint(self._stored) for x, names in self._names
        )


def _has_names(x: Any) -> bool:
    return has_dict(x) and not isinstance(x, (type, types.ModuleType))


def nodes_of(call: Signature, before: Before, containers: Containers) -> dict[int, Node]:
    """Where each container that a function was given, or found at a place, is in the signature, if
    that takes it apart. By the ids of those that the function has seen."""
    first = len(call.structures) - len(call.places)
    found = [(before.inside[key][0], (first + at, way)) for key, (at, way) in before.ways.items()]
    given = zip(containers.pairs, containers.nodes, strict=True)
    found += [(copy, node) for (_, copy, _), node in given]
    return {id(x): node for x, node in found if structure_at(call, node).cls is type(x)}


@record()
class Updates:
    """What a function has put where: `leaves` are those of all structures in `of`, in order.
    `is_sure`: it was surely this thread that has put it there."""

    of: list[Update]
    leaves: list[Any]
    is_sure: bool


class _Unsaid(Exception):
    """One trace cannot say what was put."""


def updates_of(
    call: Signature,
    inputs: Inputs,
    reads: Reads,
    before: Before,
    containers: Containers,
    nodes: Mapping[int, Node],
    result: Any,
) -> Updates | None:
    """What a function has put at places, and into the containers among its arguments; None if
    that cannot be said. `before`: what it found, handles of the trace in it."""
    kept = [*containers.originals, *map(id, _containers(result))]
    finder = _Finder(call, inputs, reads, before, nodes, kept)
    try:
        first = len(call.structures) - len(call.places)
        for number, (place, was, own) in enumerate(before.at, first):
            finder.at(place, was, own, number)
        for (_, copy, was), node in zip(containers.pairs, containers.nodes, strict=True):
            finder.inside(copy, was, tree.opened(with_plain_keys(copy)), node)
        finder.check_views(tree.leaves(result))
        if len(apart_of(call, finder.updates)) > _MANY:
            raise _Unsaid
        if finder.updates and _are_arguments_kept(before, containers):
            raise _Unsaid
    except _Unsaid:
        containers.is_kept = _are_arguments_kept(before, containers)
        return None
    return Updates(finder.updates, finder.leaves, finder.is_sure)


def _are_arguments_kept(before: Before, containers: Containers) -> bool:
    """Whether a container among the arguments stands at a place, too, where the function has seen
    another."""
    return any(id(original) in before.inside for original, _, _ in containers.pairs)


class _Finder:
    """Compares what was with what is."""

    def __init__(
        self,
        call: Signature,
        inputs: Inputs,
        reads: Reads,
        before: Before,
        nodes: Mapping[int, Node],
        kept: Iterable[int],
    ) -> None:
        self.call = call
        self.reads = reads
        self.before = before
        self.updates: list[Update] = []
        self.leaves: list[Any] = []
        self.is_sure = True
        self.alone = _is_alone()
        self.given = inputs.numbers()
        # the leaves that the call is known by, and the containers that are there or leave
        self.objects = {
            id(x)
            for x, leaf in zip(inputs.arrays, call.leaves, strict=True)
            if isinstance(leaf, Static) and not leaf.by_value
        }
        self.known = nodes
        self.kept = {*before.inside, *kept}
        found = zip(leaf_nodes(call), at_places(call), strict=True)
        self.logs = {node for node, leaf in found if leaf == Log()}
        self.looked_at: set[int] = set()
        self.nodes: set[int] = set()  # the containers that were changed

    def at(self, place: Place, was: Any, own: bool, number: int) -> None:
        """Look at a place, the structure of this number."""
        references = sys.getrefcount(place.read())
        now = place.read()
        if was is not MISSING:
            self._within(was, (number, ()))  # others may know what has left this place
        if now is was or place.kind in _FIXED:
            return
        if not self.reads.fills and place.name not in self.reads.stored:
            raise _Unsaid  # it was another thread
        if now is MISSING or not _can_be_put(place, was, own):
            raise _Unsaid
        fresh = type(now) is np.ndarray and references == _ALONE
        self._put("place", place, None, now, fresh)

    def _within(self, x: Any, node: Node) -> None:
        """Look into what stands at a place as it did."""
        known = self.before.inside.get(id(x))
        if known is None:
            return
        was = known[1]
        now = children_of(with_plain_keys(x), True)
        if now is None:
            raise _Unsaid  # it has got more than its fields
        if id(x) in self.looked_at:
            if id(x) in self.nodes:
                raise _Unsaid  # it stands at two places: by which of them is not in the trace
            return
        self.looked_at.add(id(x))
        self.inside(x, was, now, node)
        if was[0] == now[0] and len(was[1]) == len(now[1]):
            for at, (old, new) in enumerate(zip(was[1], now[1], strict=True)):
                if old is new:
                    self._within(new, below(node, at))

    def inside(self, x: Any, was: _Parts, now: _Parts | None, node: Node) -> None:
        """Compare what is in a container."""
        assert now is not None
        if _is_same(was, now):
            return
        if node in self.logs and _is_same((was[0], now[1][: len(was[1])]), was):
            self._list(was[1], now[1], node)
            return
        structure = structure_at(self.call, node)
        if structure.cls is not type(x) or id(x) in self.nodes:
            raise _Unsaid  # it is compared as a whole
        self.nodes.add(id(x))
        if type(x) in (list, deque):
            self._list(was[1], now[1], node)
        elif type(x) in (dict, defaultdict, OrderedDict):
            self._dict(was, now, node)
        elif was[0] == now[0] and hasattr(type(x), "__dataclass_fields__"):
            for name, old, new in zip(was[0], was[1], now[1], strict=True):
                if old is not new:
                    self._put("attribute", node, name, new)
        else:
            raise _Unsaid

    def _list(self, was: Sequence[Any], now: Sequence[Any], node: Node) -> None:
        for at, (old, new) in enumerate(zip(was, now, strict=False)):
            if old is not new:
                self._put("item", node, at, new)
        for new in now[len(was) :]:
            self._put("append", node, None, new)
        for at in reversed(range(len(now), len(was))):
            self.updates.append(Update("delete", node, at, None))

    def _dict(self, was: _Parts, now: _Parts, node: Node) -> None:
        old = dict(zip(*was, strict=True))
        stay = [name for name in was[0] if name in now[0]]
        names = {*map(type, was[0]), *map(type, now[0])}
        if list(now[0][: len(stay)]) != stay or not names <= _KEYS:
            raise _Unsaid
        for name in was[0]:
            if name not in now[0]:
                self.updates.append(Update("delete", node, name, None))
        for name, new in zip(*now, strict=True):
            if old.get(name, MISSING) is not new:
                self._put("item", node, name, new)

    def _put(self, kind: Any, target: Place | Node, key: Any, x: Any, fresh: bool = False) -> None:
        self.updates.append(Update(kind, target, key, self._taken(x, fresh)))

    def _taken(self, x: Any, fresh: bool = False) -> Structure:
        """The structure of what was put."""
        if type(x) is Tracked or id(x) in self.known:
            self.is_sure &= self.alone or not (id(x) in self.given or id(x) in self.known)
            self.leaves.append(x)
            return tree.LEAF
        is_made = _is_plain_container(x) and not self.before.is_known(x)
        parts = tree.children_of(with_plain_keys(x)) if is_made else None
        if parts is not None and (id(x) not in self.kept or _is_value(x)):
            self.kept.add(id(x))
            before = len(self.leaves)
            kids = tuple(map(self._taken, parts[1]))
            return Structure(type(x), parts[0], kids, len(self.leaves) - before)
        if fresh:
            x = buffer(own_copy(x))
        elif not (isinstance(x, (*_PLAIN, *_LASTING)) or id(x) in self.objects):
            raise _Unsaid
        self.is_sure &= self.alone
        self.leaves.append(x)
        return tree.LEAF

    def check_views(self, results: Iterable[Any]) -> None:
        """Refuse what was put beside a view of it: machine code would make a copy of each."""
        roots: dict[int, int] = {}
        for x in (*self.leaves, *(results if self.leaves else ())):
            if type(x) is Tracked:
                root = root_of(x)
                if id(root) not in self.given and roots.setdefault(id(root), id(x)) != id(x):
                    raise _Unsaid


def _stays(now: Any, was: Any) -> bool:
    """Whether it is the very same still. C's members make a number (or text) anew for each who
    reads it."""
    return now is was or (type(now) is type(was) and type(now) in _MADE and repr(now) == repr(was))


def _is_same(a: _Parts | None, b: _Parts) -> bool:
    """Whether a container holds the very same under the same names."""
    return (
        a is not None
        and a[0] == b[0]
        and len(a[1]) == len(b[1])
        and all(x is y for x, y in zip(a[1], b[1], strict=True))
    )


def _containers(x: Any) -> Iterator[Any]:
    """All containers in a structure."""
    parts = tree.children_of(x)
    if parts is not None:
        yield x
        for child in parts[1]:
            yield from _containers(child)


def _is_plain_container(x: Any) -> bool:
    return type(x) in (list, dict) or is_record(x) or _is_value(x)


def _is_value(x: Any) -> bool:
    """Whether it is a container that cannot be changed: one like it is as good."""
    return type(x) is tuple or tree.is_namedtuple(type(x)) or is_frozen(x)


def _can_be_put(place: Place, was: Any, own: bool) -> bool:
    """Whether a place takes what is put there by one call of the interpreter's."""
    holder = place.holder.value
    if place.kind == "cell":
        return was is not MISSING
    if place.kind == "item":
        return type(holder) is dict and holder is not os.environ._data  # type: ignore[attr-defined]
    if place.kind != "attribute" or place.name.startswith("__"):
        return False
    if isinstance(holder, (type, functools.partial)):
        return False
    if written_in_c(holder, "__setattr__") is not object.__setattr__:
        return False
    raw = lent(type(holder), place.name)
    if isinstance(raw, types.MemberDescriptorType):
        return True
    if hasattr(type(raw), "__set__") or not place.is_own:
        return False
    return own or was is MISSING or raw is was  # else the class's is another, too


def _is_alone() -> bool:
    """Whether no other thread can have put something somewhere. (Those that compile do not.)"""
    me = threading.get_ident()
    return all(t.ident == me or t.name == "tracker-compile" for t in threading.enumerate())


class _Probe:
    pass


def _alone() -> int:
    """The references that are seen of an object which only a place has."""
    holder = _Probe()
    holder.x = np.zeros(1)  # type: ignore[attr-defined]
    place = Place("attribute", Static(holder), "x", "")
    return sys.getrefcount(place.read())


_ALONE = _alone()


def carry_out(
    updates: Sequence[Update], values: Sequence[Any], container: Callable[[Node], Any]
) -> None:
    """Put values, the leaves of the updates' structures, where they belong."""
    found = iter(values)
    made = [
        None if update.structure is None else tree.unflatten(update.structure, found)
        for update in updates
    ]
    targets: list[Any] = [
        update.target if isinstance(update.target, Place) else container(update.target)
        for update in updates
    ]
    for update, target, x in zip(updates, targets, made, strict=True):
        if update.kind == "place":
            target.put(x, True)
        elif update.kind == "append":
            target.append(x)
        elif update.kind == "delete":
            del target[update.key]
        elif update.kind == "attribute":
            object.__setattr__(target, update.key, x)
        else:
            target[update.key] = x
