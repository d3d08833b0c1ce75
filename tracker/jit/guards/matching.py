"""Where Python code finds what it was not given: closure cells, entries of a namespace, attributes.

Owns: `Place`, and what stands there now; `Spot`, one leaf of that. `jit/discovery/discovery.py`
finds the places that a function reads; a call's signature has them after the arguments; native code
looks at them on each call. Numbers at places are constants of a trace, but for those at spots that
are known to vary.

Invariants: places are equal when they mean the same; a place never keeps alive an object that
can be referred to weakly; reading a place runs no Python code of the user's.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracker import tree
from tracker.jit.guards.class_guard import Lent
from tracker.jit.guards.constants import NESTED, Compared, Static, is_changing, items_of
from tracker.jit.guards.signature import (
    Array,
    Leaf,
    Log,
    Node,
    Scalar,
    Signature,
    Twin,
    array_leaf,
    containers_of,
    leaf_of,
)
from tracker.jit.guards.source import MISSING, Place, Spot, below, children_of, is_frozen, is_record
from tracker.tree import Structure

MANY = 64  # a list of more plain values than this is compared as a whole


_MANY_INSIDE = 256  # the same of a list of lists, whose every value would take some lines of code


_DEEP = 8  # containers in containers; beyond, they are taken apart


_WHOLE = (
    "slot",
    "class",
    "own",
    "lent",
    "names",
    "token",
)  # kinds of which what stands there is never taken apart


def holders_apart(call: Signature) -> list[tuple[Node, Static]]:
    """The objects that a signature takes apart, and those of the same class with places of their
    own, none of which they may be: what is written by one way would not be read by the other."""
    holders: dict[type, dict[int, Static]] = {}
    for place in call.places:
        x = place.holder.value
        if place.kind == "attribute" and not (is_frozen(x) or isinstance(x, (list, dict, deque))):
            holders.setdefault(type(x), {})[id(x)] = place.holder
    found = containers_of(call) if holders else []
    return [
        (node, holder)
        for node in found
        for holder in holders.get(structure_at(call, node).cls or object, {}).values()
    ]


def structure_at(call: Signature, node: Node) -> Structure:
    """The structure at a node; a leaf, where the signature does not take apart what is there."""
    structure = call.structures[node[0]]
    for at in node[1]:
        if not structure.children:
            return tree.LEAF
        structure = structure.children[at]
    return structure


def with_places(
    call: Signature,
    leaves: Sequence[Any],
    places: Sequence[Place],
    varying: frozenset[Spot] = frozenset(),
) -> tuple[Signature, list[Any]]:
    """The signature of a call and what stands at the places, and all leaves."""
    taken = _Taken(call, leaves, varying, {id(place.holder.value) for place in places})
    structures = tuple(map(taken.at, places, itertools.count(len(call.structures))))
    same, shown = tuple(taken.same), tuple(taken.shown)
    full = Signature(call.structures + structures, call.names, shown, tuple(places), same)
    return full, taken.leaves


def same_objects(call: Signature, own: int) -> list[Any] | None:
    """What stands at the places of a signature whose first `own` leaves are arguments, if each is
    the very object that the signature knows there: then nothing needs to be taken apart."""
    leaves = call.leaves[own:]
    if len(leaves) != len(call.places):
        return None
    found = [place.read() for place in call.places]
    for x, leaf in zip(found, leaves, strict=True):
        is_same = isinstance(leaf, Static) and leaf.value is x
        if isinstance(leaf, (Lent, Compared)):
            is_same = leaf.holds(x)
        if x is None or not is_same:
            return None
    return found


class _Taken:
    """Takes the values at places apart, after a call's leaves."""

    def __init__(
        self, call: Signature, leaves: Sequence[Any], varying: frozenset[Spot], holders: set[int]
    ) -> None:
        self.varying = varying
        self._holders = holders
        self.same: list[tuple[Node, Node]] = []
        self._nodes: dict[int, Node] = {}
        self.leaves = list(leaves)
        self.shown: list[Leaf] = list(call.leaves)
        self.arrays = {
            id(x): number
            for number, (x, leaf) in enumerate(zip(leaves, call.leaves, strict=True))
            if isinstance(leaf, Array)
        }

    def at(self, place: Place, number: int) -> Structure:
        """What stands at a place."""
        if place.kind not in _WHOLE:
            return self.take(place.read(), (), (place, ()), number)
        x = place.read()
        self.leaves.append(x)
        if place.kind == "names":
            self.shown.append(Compared(x))
        elif place.kind == "lent" and x is not MISSING:
            self.shown.append(Lent(x, place.name))
        else:
            self.shown.append(Static(x))
        return tree.LEAF

    def take(self, x: Any, above: tuple[int, ...], spot: Spot, number: int) -> Structure:
        is_log = spot[0].is_log and len(spot[1]) <= 1
        if is_log and type(x) is list:
            self.leaves.append(x)
            self.shown.append(Log())
            return tree.LEAF
        apart = spot[0].is_apart and id(x) not in self._holders
        parts = children_of(x, apart) if id(x) not in above else None
        if parts is None or (_is_many(parts[1]) and not (is_log and type(x) is dict)):
            self._leaf(x, parts is not None, spot)
            return tree.LEAF
        before = len(self.leaves)
        if isinstance(x, (list, dict)) or (is_record(x) and not is_frozen(x)):
            node = number, spot[1]
            first = self._nodes.setdefault(id(x), node)
            if first != node:
                self.same.append((first, node))
        kids = tuple(
            self.take(child, (*above, id(x)), below(spot, at), number)
            for at, child in enumerate(parts[1])
        )
        return Structure(type(x), parts[0], kids, len(self.leaves) - before)

    def _leaf(self, x: Any, many: bool, spot: Spot) -> None:
        number = len(self.leaves)
        self.leaves.append(x)
        if many:
            self.shown.append(Compared(x))
            return
        leaf = array_leaf(x)
        if leaf is not None and spot[0].is_fixed:
            self.shown.append(Compared(x))
            return
        if leaf is None:
            varies = spot in self.varying and is_number(x)
            self.shown.append(Scalar(type(x)) if varies else _known(x))
            return
        first = self.arrays.setdefault(id(x), number)
        self.shown.append(leaf if first == number else Twin(first))


def _known(x: Any) -> Static | Compared:
    return Compared(x) if is_changing(x) else Static(x)


def _is_many(children: tuple[Any, ...]) -> bool:
    flat = not any(type(x) in NESTED for x in children)
    if flat and len(children) <= MANY:
        return False
    return _plain(children, _DEEP) > (MANY if flat else _MANY_INSIDE)


def _plain(items: tuple[Any, ...], deep: int) -> float:
    """How many plain values there are; less than none if there is anything else."""
    total = 0.0
    for x in items:
        if type(x) in NESTED and deep:
            total += _plain(items_of(x), deep - 1)
        elif x is not None and not Static(x).by_value:
            return -math.inf
        if total < 0:
            break
        total += type(x) not in NESTED
    return total


def is_number(x: Any) -> bool:
    """Whether native code could take a value as an input. A bool is a flag: see `leaf_of`."""
    return isinstance(leaf_of(x), Scalar) and type(x) is not np.bool_


def spots_of(call: Signature) -> list[Spot]:
    """The spot of each leaf that stands at a place."""
    own = len(call.structures) - len(call.places)
    return [(call.places[at - own], way) for at, way in leaf_nodes(call)]


def leaf_nodes(call: Signature) -> list[Node]:
    """The node of each leaf that stands at a place."""
    own = len(call.structures) - len(call.places)
    return [
        node
        for at, whole in enumerate(call.structures[own:], own)
        for node in _nodes(whole, (at, ()))
    ]


def _nodes(structure: Structure, node: Node) -> Iterator[Node]:
    if structure.cls is None:
        yield node
    for at, child in enumerate(structure.children):
        yield from _nodes(child, below(node, at))


def names_of(call: Signature) -> list[str]:
    """What people call each leaf."""
    heads = [f"argument {at}" for at in range(call.positional)]
    heads += [f"argument {name}" for name in call.names]
    heads += [place.label for place in call.places]
    return [
        head + path
        for head, structure in zip(heads, call.structures, strict=True)
        for path in _paths(structure)
    ]


def difference(old: Signature, new: Signature) -> tuple[int, str]:
    """How much is new in a signature, and what comes first, in words."""
    before = dict(zip(names_of(old), old.leaves, strict=True))
    after = dict(zip(names_of(new), new.leaves, strict=True))
    found = [f"{name} is there" for name in after if name not in before]
    found += [f"{name} is not there" for name in before if name not in after]
    found += [
        f"{name} is {_shown(leaf)}, not {_shown(before[name])}"
        for name, leaf in after.items()
        if name in before and before[name] != leaf and not _takes(before[name], leaf)
    ]
    return len(found), found[0] if found else "a structure of other classes"


def _takes(leaf: Leaf, now: Leaf) -> bool:
    """Whether an input takes what another trace had as a constant."""
    return isinstance(leaf, Scalar) and isinstance(now, Static) and type(now.value) is leaf.cls


def _shown(leaf: Leaf) -> str:
    if isinstance(leaf, Lent):
        return "what it is by now"
    if isinstance(leaf, Static):
        return "another object" if leaf.value is None else reprlib.repr(leaf.value)
    return str(leaf) if isinstance(leaf, (Array, Scalar)) else type(leaf).__name__.lower()


def _paths(structure: Structure) -> Iterator[str]:
    if structure.cls is None:
        yield ""
        return
    for at, (label, child) in enumerate(zip(structure.labels(), structure.children, strict=True)):
        for rest in _paths(child):
            yield f"[{at if label is None else label!r}]{rest}"
