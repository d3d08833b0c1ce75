"""Signatures: the types of what a native call takes and returns. Plain data.

Input leaves are `ArrayLeaf`, `ScalarLeaf`, `AliasLeaf`, `AppendOnlyLeaf`, `UnsupportedLeaf`, the
constant keys of `constants.py` and `ClassGuard`; output leaves are the classes named `...Out`.
Arrays and numbers take `slots` words in the frame that native code computes on. Start at
`signature_of`. The signature says which leaves are one object (`AliasLeaf`); a `Condition` says
which are not, or which flags an array has.

Invariants: two calls have equal signatures exactly when one compiled entry serves both (none serves
a signature with an `UnsupportedLeaf`). Signatures are hashable, and keep no object alive that they
know by identity, if it can be referenced weakly. Conditions are checked on each call, before
anything is computed or written.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from tracker import tree
from tracker.ir.types import Type
from tracker.jit.guards.class_guard import ClassGuard
from tracker.jit.guards.constants import (
    BIT_COMPARED_CLASSES,
    BUILTIN_CONTAINERS,
    NUMBER_TYPE_CODES,
    SCALARS,
    ConstantKey,
    StructuralKey,
    has_structural_key,
    holds_plain_values,
    is_mutable_leaf,
)
from tracker.jit.guards.source import Source, child_path
from tracker.ops.shape.memory_order import MemoryOrder, c_strides
from tracker.support.structs import record
from tracker.tree import Structure

NATIVE_DTYPES: frozenset[np.dtype[Any]] = frozenset(
    np.dtype(code) for code in NUMBER_TYPE_CODES.split()
)


@record(frozen=True)
class ArrayLeaf:
    """An `ndarray`, no subclass: native byte order, aligned, of this dtype and shape; C-contiguous,
    or with these strides (in bytes)."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    slots = 1

    def __str__(self) -> str:
        layout = "" if self.strides is None else f" strides {self.strides}"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{layout}"


@record(frozen=True)
class ScalarLeaf:
    """A number of exactly this class: `float`, `int` (within int64), `complex`, a NumPy scalar."""

    cls: type

    @property
    def dtype(self) -> np.dtype[Any]:
        return SCALARS[self.cls]

    @property
    def slots(self) -> int:
        return 2 if self.dtype.kind == "c" else 1

    def __str__(self) -> str:
        return self.cls.__name__


@record(frozen=True)
class UnsupportedLeaf:
    """A value that no native entry takes; `reason` says what it is."""

    reason: str


@record(frozen=True)
class AliasLeaf:
    """The same object as the array at an earlier leaf."""

    leaf: int


@record(frozen=True)
class AppendOnlyLeaf:
    """A list that the code only appends to: its contents do not matter."""


SignaturePath: TypeAlias = tuple[int, tuple[int, ...]]
Leaf: TypeAlias = (
    ArrayLeaf
    | ScalarLeaf
    | ConstantKey
    | AliasLeaf
    | StructuralKey
    | UnsupportedLeaf
    | AppendOnlyLeaf
    | ClassGuard
)


@record(frozen=True, slots=False)
class Signature:
    """The arguments and captured state of a call.

    `structures` has one structure for each positional argument, each name in `names` and each of
    the `sources`; `leaves` are those of all structures, in order. `aliases` are pairs of paths of
    captured lists, dicts or dataclasses that are one object.
    """

    structures: tuple[Structure, ...]
    names: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    sources: tuple[Source, ...] = ()
    aliases: tuple[tuple[SignaturePath, SignaturePath], ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash((self.structures, self.names, self.leaves, self.sources))

    def __hash__(self) -> int:
        return self._hash

    @property
    def first_source(self) -> int:
        """The number of the first structure that is at a source."""
        return len(self.structures) - len(self.sources)

    @property
    def positional_count(self) -> int:
        return self.first_source - len(self.names)

    @property
    def is_alive(self) -> bool:
        """Whether all objects that the signature knows by identity still exist."""
        holders = (source.holder for source in self.sources)
        known = (ConstantKey, StructuralKey, ClassGuard)
        return not any(isinstance(x, known) and x.is_dead for x in (*self.leaves, *holders))

    @property
    def is_native(self) -> bool:
        """Whether a native entry can take these arguments."""
        return not any(isinstance(leaf, UnsupportedLeaf) for leaf in self.leaves)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first slot of each leaf, then the number of slots."""
        return slot_offsets(self.leaves)


def iter_nodes(call: Signature) -> Iterator[tuple[SignaturePath, Structure, int]]:
    """The path and structure of each leaf and container, in order, and the number of its first
    leaf."""
    first = 0
    todo: list[tuple[SignaturePath, Structure]] = []
    todo += [((at, ()), structure) for at, structure in enumerate(call.structures)][::-1]
    while todo:
        path, structure = todo.pop()
        yield path, structure, first
        first += structure.cls is None
        todo += [(child_path(path, at), s) for at, s in enumerate(structure.children)][::-1]


def mutable_containers(call: Signature) -> list[tuple[SignaturePath, type]]:
    """The paths and classes of all containers that can change."""
    return [
        (path, structure.cls)
        for path, structure, _ in iter_nodes(call)
        if structure.cls is not None and not issubclass(structure.cls, tuple)
    ]


def no_alias_pairs(
    call: Signature, state_writes: Sequence[StateWrite]
) -> list[tuple[SignaturePath, SignaturePath]]:
    """Pairs of containers that must not be one object: each that is written to, with each other."""
    changed = {u.target for u in state_writes if isinstance(u.target, tuple)}
    others = mutable_containers(call) if changed else []
    return [(path, other) for path in changed for other, _ in others if path != other]


def signature_of(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str] = frozenset(),
    differentiated: Container[int] = (),
) -> tuple[Signature, list[Any]]:
    """The signature of a call, and its leaves.

    In `static` arguments everything but Python's own containers is a constant. Arguments that are
    `differentiated` may contain objects of user classes, which are flattened like containers.
    """
    values: list[Any] = []
    leaves: list[Leaf] = []
    structures = [
        _flatten_argument(arg, at in static, values, leaves, at in differentiated)
        for at, arg in enumerate(args)
    ]
    structures += [
        _flatten_argument(arg, name in static, values, leaves) for name, arg in kwargs.items()
    ]
    return Signature(tuple(structures), tuple(kwargs), tuple(leaves)), values


def _flatten_argument(
    arg: Any, static: bool, values: list[Any], leaves: list[Leaf], differentiated: bool = False
) -> Structure:
    if static:
        found, structure = tree.flatten(arg, _is_static_leaf)
        values += found
        leaves += [StructuralKey(x) if has_structural_key(x) else ConstantKey(x) for x in found]
        return structure
    cls = type(arg)
    if cls is np.ndarray or cls in SCALARS:
        values.append(arg)
        leaves.append(leaf_of(arg))
        return tree.LEAF
    found, structure = tree.flatten(arg, objects=differentiated)
    values += found
    leaves += map(leaf_of, found)
    return structure


def _is_static_leaf(x: Any) -> bool:
    """Whether an object within a static argument is compared as one: it is not a list, tuple or
    dict, which may hold other objects later."""
    return type(x) not in BUILTIN_CONTAINERS and not tree.is_namedtuple(type(x))


def leaf_of(x: Any) -> Leaf:
    """The leaf of a value that is not a container."""
    cls = type(x)
    if cls is np.ndarray:
        return array_leaf(x) or UnsupportedLeaf(f"an array of {x.dtype!r}")
    if cls is bool:
        return ConstantKey(x)  # code tests flags by `is True`, and branches on them
    if cls is int and not -(2**63) <= x < 2**63:
        return UnsupportedLeaf("an int beyond 64 bits")
    if cls in SCALARS:
        return ScalarLeaf(cls)
    if isinstance(x, (np.ndarray, np.generic)):
        return UnsupportedLeaf(f"a {cls.__name__}")
    if is_mutable_leaf(x) and not holds_plain_values(x):
        return UnsupportedLeaf(f"a {cls.__name__} of objects")
    return StructuralKey(x) if has_structural_key(x) else ConstantKey(x)


def leaf_strides(array: Any) -> tuple[int, ...]:
    """The strides in elements of an array or an array leaf; a number has none."""
    if isinstance(array, ScalarLeaf):
        return ()
    if array.strides is None:
        return c_strides(array.shape)
    return tuple(stride // array.dtype.itemsize for stride in array.strides)


def array_leaf(x: Any) -> ArrayLeaf | UnsupportedLeaf | None:
    """The leaf of an array as it lies in memory; None if `x` is not an array of numbers."""
    if type(x) is not np.ndarray or x.dtype.kind not in "biufc":
        return None
    dtype, flags = x.dtype, x.flags
    if dtype not in NATIVE_DTYPES or not dtype.isnative:
        return UnsupportedLeaf(f"an array of {dtype!r}")
    if not flags.aligned or any(stride % dtype.itemsize for stride in x.strides):
        return UnsupportedLeaf("an array that is not aligned")
    return ArrayLeaf(dtype, x.shape, None if flags.c_contiguous else x.strides)


@record(frozen=True)
class ArrayOut(ArrayLeaf):
    """A new `ndarray`, in C order or with these strides; its slot has the address of the data."""


@record(frozen=True)
class ScalarOut(ScalarLeaf):
    """A new scalar of this class, Python's or NumPy's; its slot has the value."""


@record(frozen=True, eq=False)
class ConstantOut:
    """The same object on each call."""

    value: Any


@record(frozen=True)
class InputOut:
    """The object passed as input leaf number `leaf`."""

    leaf: int


@record(frozen=True)
class ViewOut:
    """A view of the array at input leaf number `leaf`.

    `offset` and `strides` are in bytes; `writeable` says whether the view may be written to where
    the array may (broadcast views may not).
    """

    leaf: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    writeable: bool


@record(frozen=True)
class AliasOut:
    """The object created for the earlier output leaf number `leaf`."""

    leaf: int


StateWriteKind: TypeAlias = Literal["source", "item", "append", "delete", "attribute"]


@record(frozen=True)
class StateWrite:
    """One write to a source (`target`), or under `key` into the container at a path.

    `structure` is that of the value written; its leaves follow those of the result.
    """

    kind: StateWriteKind
    target: Source | SignaturePath
    key: Any
    structure: Structure | None


@record(frozen=True)
class ContainerOut:
    """The container passed at a path of the signature."""

    path: SignaturePath


def array_out(type: Type, order: MemoryOrder) -> ArrayOut:
    """A new array of this type, in a memory order."""
    strides = None if order is None else tuple(step * type.dtype.itemsize for step in order)
    return ArrayOut(type.dtype, type.shape, strides)


def scalar_out(type: Type, is_python: bool) -> ScalarOut:
    """A new number of this type, Python's or NumPy's."""
    if is_python:
        return ScalarOut({"f": float, "i": int, "c": complex, "b": bool}[type.dtype.kind])
    return ScalarOut(type.dtype.type)


OutLeaf = ArrayOut | ScalarOut | ConstantOut | InputOut | ViewOut | AliasOut | ContainerOut


@record(frozen=True)
class DistinctObjects:
    """Different objects: leaves, by number, or containers, by their path in the signature."""

    members: tuple[int | SignaturePath, ...]

    def holds(self, leaves: Sequence[Any], container: Callable[[SignaturePath], Any]) -> bool:
        found = [leaves[at] if isinstance(at, int) else container(at) for at in self.members]
        return len(set(map(id, found))) == len(found)


@record(frozen=True)
class ArrayFlags:
    """The flags in `mask` of the array at leaf number `leaf` equal `flags`."""

    leaf: int
    mask: int
    flags: int

    def holds(self, leaves: Sequence[Any], _: Callable[[SignaturePath], Any]) -> bool:
        return bool(leaves[self.leaf].flags.num & self.mask == self.flags)


Condition: TypeAlias = DistinctObjects | ArrayFlags


def distinct_objects(call: Signature) -> tuple[DistinctObjects, ...]:
    """The objects that code which compares identities must find distinct, as they are in this call:
    equal array leaves, containers of one class, and a number that is an argument and one at a
    source."""
    own = sum(s.count for s in call.structures[: call.first_source])
    alike: dict[Any, list[int | SignaturePath]] = {}
    for number, leaf in enumerate(call.leaves):
        if isinstance(leaf, ArrayLeaf):
            alike.setdefault(leaf, []).append(number)
    again = {other for _, other in call.aliases}
    for path, structure, first in iter_nodes(call):
        if structure.cls is None:
            continue
        leaves = call.leaves[first : first + structure.count]
        holds_array = any(isinstance(leaf, (ArrayLeaf, AliasLeaf)) for leaf in leaves)
        if path not in again and (holds_array or not issubclass(structure.cls, tuple)):
            alike.setdefault(structure.cls, []).append(path)
    numbers = [
        (one, other)
        for one, leaf in enumerate(call.leaves[:own])
        if isinstance(leaf, ScalarLeaf) and leaf.cls in BIT_COMPARED_CLASSES
        for other, beside in enumerate(call.leaves[own:], own)
        if _scalar_class(beside) is leaf.cls
    ]
    groups = [*map(tuple, alike.values()), *numbers]
    return tuple([DistinctObjects(group) for group in groups if len(group) > 1])


def _scalar_class(leaf: Any) -> type | None:
    """The class of a number at a source."""
    if isinstance(leaf, ScalarLeaf):
        return leaf.cls
    return type(leaf.value) if isinstance(leaf, ConstantKey) else None


def condition_paths(conditions: Iterable[Condition]) -> set[SignaturePath]:
    """The paths of the containers that the conditions mention."""
    return {
        at
        for each in conditions
        if isinstance(each, DistinctObjects)
        for at in each.members
        if type(at) is tuple
    }


@record(frozen=True, slots=False)
class Outputs:
    """The result of a call, and its writes.

    Native code builds tuples, named tuples, lists and dicts; `build(structure, children)` the
    others. `writes` are the input leaves that are written to, with their types; their slots follow
    those of the result. `no_alias` are input leaves that must share memory with no other.
    `conditions` must hold for the arguments. `state_writes` are done in order.
    """

    structure: Structure
    leaves: tuple[OutLeaf, ...]
    build: Callable[[Structure, Sequence[Any]], Any] | None = None
    writes: tuple[tuple[int, ArrayOut], ...] = ()
    no_alias: tuple[int, ...] = ()
    conditions: tuple[Condition, ...] = ()
    state_writes: tuple[StateWrite, ...] = ()

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first slot of each output leaf, counted from the first output slot; then the number
        of slots."""
        return slot_offsets(self.leaves)


def slot_offsets(leaves: Sequence[Leaf | OutLeaf]) -> tuple[int, ...]:
    """Running sum of the slots of the leaves."""
    offsets = [0]
    for leaf in leaves:
        offsets.append(offsets[-1])
        if isinstance(leaf, (ArrayLeaf, ScalarLeaf)):
            offsets[-1] += leaf.slots
    return tuple(offsets)
