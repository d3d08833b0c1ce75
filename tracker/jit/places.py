"""Where Python code finds what it was not given: closure cells, entries of a namespace, attributes.

Owns: `Place`, and what stands there now; `Spot`, one leaf of that. `reads.py` finds the places that
a function reads; a call's signature has them after the arguments; native code looks at them on each
call. Numbers at places are constants of a trace, but for those at spots that are known to vary.

Invariants: places are equal when they mean the same; a place never keeps alive an object that
can be referred to weakly; reading a place runs no Python code of the user's.
"""

from __future__ import annotations

import functools
import itertools
import math
import reprlib
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from tracker import tree
from tracker.instances import own_dict
from tracker.jit.compared import NESTED, Compared, Static, is_changing, items_of
from tracker.jit.lent import Lent
from tracker.jit.signature import (
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
from tracker.records import field, record
from tracker.tree import Structure

MISSING: Any = object()
OF_C = (types.MemberDescriptorType, types.GetSetDescriptorType)  # which keep it in the object
MANY = 64  # a list of more plain values than this is compared as a whole
_MANY_INSIDE = 256  # the same of a list of lists, whose every value would take some lines of code
_DEEP = 8  # containers in containers; beyond, they are taken apart


Kind: TypeAlias = Literal[
    "cell", "item", "attribute", "variable", "slot", "class", "own", "lent", "names", "token"
]
_WHOLE = (
    "slot",
    "class",
    "own",
    "lent",
    "names",
    "token",
)  # kinds of which what stands there is never taken apart


@record(frozen=True)
class Place:
    """The content of a cell, `holder[name]` of a dict, the attribute `name`, what a context
    variable is in this context, or a slot of a function, known by identity: its code, its defaults;
    the class of an object, which of the names in `name` its own dict has (none, as a rule), or what
    a class lends under such names (`lent.py`); what a dict that hardly changes, a library's or the
    globals where nothing stands, has under the names `name`; a token: that of abstract classes, or
    how often a cache was emptied (`caches.py`).

    `label` says to people what it is. `is_log`: the function appends to the list there, or to
    those in the dict there, and does not look at it. `is_apart`: the function puts dataclasses
    there, which are known by their fields. `is_fixed`: an array there is a constant of the trace.
    """

    kind: Kind
    holder: Static
    name: Any
    label: str = field(compare=False)
    is_log: bool = field(default_factory=bool, compare=False)
    is_apart: bool = field(default_factory=bool, compare=False)
    is_fixed: bool = field(default_factory=bool, compare=False)

    def read(self) -> Any:
        """What stands there; MISSING if nothing does."""
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
            own = own_dict(holder)
            return tuple(name for name in self.name if name in own) or MISSING
        return holder if self.kind == "lent" else getattr(holder, self.name, MISSING)

    @property
    def is_own(self) -> bool:
        """Whether what stands there is the holder's own: an attribute may be lent by a class."""
        holder = self.holder.value
        if self.kind != "attribute" or isinstance(holder, type):
            return True
        return self.name in attributes_of(holder) or isinstance(lent(type(holder), self.name), OF_C)

    @property
    def lender(self) -> Place | None:
        """The place in a class that lends the holder what stands there; None if it is its own."""
        if self.is_own:
            return None
        cls = _lender(type(self.holder.value), self.name)
        return None if cls is None else Place(self.kind, Static(cls), self.name, self.label)

    def put(self, x: Any, own: bool) -> None:
        """Have something stand there, or nothing, if it is MISSING; as what is the holder's `own`,
        or is lent to it."""
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
        elif x is MISSING or (not own and self.is_own and self._is_lent(x)):
            written_in_c(holder, "__delattr__")(holder, self.name)
        elif own and not isinstance(holder, (type, functools.partial)):
            written_in_c(holder, "__setattr__")(holder, self.name, x)
        else:
            _set_attribute(holder, self.name, x)

    def _is_lent(self, x: Any) -> bool:
        """Whether its class lends the holder this attribute."""
        return lent(type(self.holder.value), self.name) is x

    def replace(self, old: Any, new: Any) -> None:
        """Have something else stand there, unless another thread has put something there: between
        look and store nothing is called, so that Python lets no other thread in."""
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


_At = TypeVar("_At")
Spot: TypeAlias = tuple[Place, tuple[int, ...]]  # a place, and the way from there to a leaf


def has_dict(x: Any) -> bool:
    """Whether an object has attributes of its own. Where a `__getattr__` may answer to every name,
    the classes are asked instead of it."""
    if not hasattr(type(x), "__getattr__"):
        return hasattr(x, "__dict__")
    return any("__dict__" in vars(cls) for cls in type(x).__mro__)


def attributes_of(x: Any) -> Mapping[str, Any]:
    """The attributes that an object has of its own."""
    return vars(x) if has_dict(x) else {}


def written_in_c(x: Any, name: str) -> Callable[..., Any]:
    """What sets (`__setattr__`) or deletes an attribute of an object without code of the user's:
    `object`'s, but for classes that keep attributes elsewhere (`threading.local`: each thread)."""
    found = (vars(cls)[name] for cls in type(x).__mro__ if name in vars(cls))
    return next(f for f in found if isinstance(f, types.WrapperDescriptorType))


def _lender(cls: type, name: str) -> type | None:
    """The class, of a class and its bases, that has the attribute; None if none has."""
    return next((c for c in cls.__mro__ if name in vars(c)), None)


def lent(cls: type, name: str) -> Any:
    """What a class lends its objects under a name, as it was put there; None if nothing."""
    lender = _lender(cls, name)
    return None if lender is None else vars(lender)[name]


def _set_attribute(holder: Any, name: str, x: Any) -> None:
    """Set an attribute where it is: on the object, or on the class that lends it."""
    if isinstance(holder, functools.partial):
        parts = {"func": holder.func, "args": holder.args, "keywords": holder.keywords, name: x}
        holder.__setstate__((*parts.values(), vars(holder)))  # type: ignore[attr-defined]
    elif isinstance(holder, types.FunctionType):
        setattr(holder, name, x)
    else:
        cls = holder if isinstance(holder, type) else type(holder)
        own = not isinstance(holder, type) and name in attributes_of(holder)
        lender = _lender(cls, name)
        if own:
            vars(holder)[name] = x
        elif lender is None or isinstance(vars(lender)[name], OF_C):
            object.__setattr__(holder, name, x)
        else:
            type.__setattr__(lender, name, x)


def children_of(x: Any, apart: bool = False) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """(names, children) of what a place's value is taken apart into; a dataclass is an object,
    whose attributes are places, but at a place that is `apart`."""
    if is_record(x):
        return tree.children_of(x) if apart else None
    if hasattr(type(x), "__dataclass_fields__") and not isinstance(x, (tuple, list, dict)):
        return None
    return ((), tuple(x)) if isinstance(x, deque) else tree.children_of(x)


def is_frozen(x: Any) -> bool:
    """Whether it is a record that cannot be changed."""
    return is_record(x) and bool(type(x).__dataclass_params__.frozen)


def is_record(x: Any) -> bool:
    """Whether it is a dataclass that is no more than its fields."""
    cls: Any = type(x)
    params = getattr(cls, "__dataclass_params__", None)
    if params is None or isinstance(x, (type, tuple, list, dict)):
        return False
    if not params.frozen and cls.__setattr__ is not object.__setattr__:
        return False
    return own_dict(x).keys() <= cls.__dataclass_fields__.keys() and not any(
        isinstance(raw, functools.cached_property)
        for each in cls.__mro__
        for raw in vars(each).values()
    )


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


def below(spot: tuple[_At, tuple[int, ...]], at: int) -> tuple[_At, tuple[int, ...]]:
    """The spot of a child of what is at a spot, or the node below a node."""
    return spot[0], (*spot[1], at)


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
