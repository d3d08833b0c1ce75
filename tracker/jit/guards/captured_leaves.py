"""Extends the signature of a call by the captured state, and matches signatures.

`with_captured_state` reads the sources of a trace and flattens what it finds into leaves after
those of the arguments. Captured numbers are constants, except at paths that were promoted to inputs
(`promotion.py`); large containers of constants are compared as a whole.

Invariant: reading a source runs no user code.
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
from tracker.jit.guards.class_guard import ClassGuard
from tracker.jit.guards.constants import (
    BUILTIN_CONTAINERS,
    ConstantKey,
    StructuralKey,
    container_contents,
    is_constant_tuple,
    is_mutable_leaf,
)
from tracker.jit.guards.signature import (
    AliasLeaf,
    AppendOnlyLeaf,
    ArrayLeaf,
    Leaf,
    ScalarLeaf,
    Signature,
    SignaturePath,
    array_leaf,
    iter_nodes,
    leaf_of,
    mutable_containers,
)
from tracker.jit.guards.source import (
    MISSING,
    AttributeSource,
    ClassGuardSource,
    NamespaceSource,
    Source,
    SourcePath,
    TypeSource,
    child_path,
    is_data_descriptor,
    is_frozen_dataclass,
    is_plain_dataclass,
    source_children,
)
from tracker.support.instances import class_attribute, instance_dict
from tracker.tree import Structure

MAX_CONSTANTS = 64  # a list of more plain values is compared as one constant
_MAX_NESTED_CONSTANTS = 256  # the same for nested lists: each value takes some lines of code
_MAX_DEPTH = 8  # of nested containers of plain values; deeper ones are flattened


def possible_holder_aliases(call: Signature) -> list[tuple[SignaturePath, ConstantKey]]:
    """Pairs of a container that a signature flattens and the holder of an attribute source of the
    same class: they must not be one object, since a write through one would be missed by the other.
    """
    holders: dict[type, dict[int, ConstantKey]] = {}
    for source in call.sources:
        x = source.holder.value
        if isinstance(source, AttributeSource) and not (
            is_frozen_dataclass(x) or isinstance(x, (list, dict, deque))
        ):
            holders.setdefault(type(x), {})[id(x)] = source.holder
    found = mutable_containers(call) if holders else []
    return [(path, holder) for path, cls in found for holder in holders.get(cls, {}).values()]


def fields_by_holder(call: Signature) -> dict[ConstantKey, list[Source]]:
    """The attributes that lie in the dict of an object, by object. Its class is guarded, so that
    nothing comes before them."""
    guarded = {source.holder for source in call.sources if isinstance(source, TypeSource)}
    found: dict[ConstantKey, list[Source]] = {}
    for source in call.sources:
        x, cls = source.holder.value, type(source.holder.value)
        if (
            isinstance(source, AttributeSource)
            and source.holder in guarded
            and source.name in instance_dict(x)
            and class_attribute(cls, "__getattribute__") is object.__getattribute__
            and not is_data_descriptor(class_attribute(cls, source.name))
        ):
            found.setdefault(source.holder, []).append(source)
    return found


def structure_at(call: Signature, path: SignaturePath) -> Structure:
    """The structure at a path; a leaf where the signature does not flatten the object."""
    structure = call.structures[path[0]]
    for at in path[1]:
        if not structure.children:
            return tree.LEAF
        structure = structure.children[at]
    return structure


def with_captured_state(
    call: Signature,
    leaves: Sequence[Any],
    sources: Sequence[Source],
    promoted: frozenset[SourcePath] = frozenset(),
) -> tuple[Signature, list[Any]]:
    """The signature of a call extended by the values at the sources, and all leaves."""
    taken = _Flattener(call, leaves, promoted, {id(source.holder.value) for source in sources})
    structures = tuple(map(taken.flatten_source, sources, itertools.count(len(call.structures))))
    same, specs = tuple(taken.aliases), tuple(taken.specs)
    full = Signature(call.structures + structures, call.names, specs, tuple(sources), same)
    return full, taken.leaves


def unchanged_captures(call: Signature, argument_count: int) -> list[Any] | None:
    """The values at the sources of a signature, if each is the very object that the signature knows
    there; else None. Then nothing needs flattening. The first `argument_count` leaves are
    arguments."""
    leaves = call.leaves[argument_count:]
    if len(leaves) != len(call.sources):
        return None
    found = [source.read() for source in call.sources]
    for x, leaf in zip(found, leaves, strict=True):
        is_same = isinstance(leaf, ConstantKey) and leaf.value is x
        if isinstance(leaf, (ClassGuard, StructuralKey)):
            is_same = leaf.holds(x)
        if x is None or not is_same:
            return None
    return found


class _Flattener:
    """Appends the flattened values at sources to the leaves of a call."""

    def __init__(
        self,
        call: Signature,
        leaves: Sequence[Any],
        promoted: frozenset[SourcePath],
        holder_ids: set[int],
    ) -> None:
        self.promoted = promoted
        self._holder_ids = holder_ids
        self.aliases: list[tuple[SignaturePath, SignaturePath]] = []
        self._container_paths: dict[int, SignaturePath] = {}
        self.leaves = list(leaves)
        self.specs: list[Leaf] = list(call.leaves)
        self.array_numbers = {
            id(x): number
            for number, (x, leaf) in enumerate(zip(leaves, call.leaves, strict=True))
            if isinstance(leaf, ArrayLeaf)
        }

    def flatten_source(self, source: Source, number: int) -> Structure:
        if not source.is_atomic:
            return self.flatten(source.read(), (), (source, ()), number)
        x = source.read()
        self.leaves.append(x)
        if isinstance(source, NamespaceSource):
            self.specs.append(StructuralKey(x))
        elif isinstance(source, ClassGuardSource) and x is not MISSING:
            self.specs.append(ClassGuard(x, source.name))
        else:
            self.specs.append(ConstantKey(x))
        return tree.LEAF

    def flatten(self, x: Any, above: tuple[int, ...], path: SourcePath, number: int) -> Structure:
        is_log = path[0].is_append_only and len(path[1]) <= 1
        if is_log and type(x) is list:
            self.leaves.append(x)
            self.specs.append(AppendOnlyLeaf())
            return tree.LEAF
        is_flattened = path[0].is_flattened and id(x) not in self._holder_ids
        parts = source_children(x, is_flattened) if id(x) not in above else None
        if parts is None or (_is_large_constant(parts[1]) and not (is_log and type(x) is dict)):
            self._add_leaf(x, parts is not None, path)
            return tree.LEAF
        before = len(self.leaves)
        if isinstance(x, (list, dict)) or (is_plain_dataclass(x) and not is_frozen_dataclass(x)):
            node = number, path[1]
            first = self._container_paths.setdefault(id(x), node)
            if first != node:
                self.aliases.append((first, node))
        kids = tuple(
            self.flatten(child, (*above, id(x)), child_path(path, at), number)
            for at, child in enumerate(parts[1])
        )
        return Structure(type(x), parts[0], kids, len(self.leaves) - before)

    def _add_leaf(self, x: Any, is_large: bool, path: SourcePath) -> None:
        number = len(self.leaves)
        self.leaves.append(x)
        leaf = array_leaf(x)
        if is_large or (leaf is not None and path[0].is_constant):
            self.specs.append(StructuralKey(x))
        elif leaf is not None:
            first = self.array_numbers.setdefault(id(x), number)
            self.specs.append(leaf if first == number else AliasLeaf(first))
        elif path in self.promoted and can_be_promoted(x):
            self.specs.append(ScalarLeaf(type(x)))
        else:
            self.specs.append(StructuralKey(x) if is_mutable_leaf(x) else ConstantKey(x))


def _is_large_constant(children: tuple[Any, ...]) -> bool:
    flat = not any(type(x) in BUILTIN_CONTAINERS for x in children)
    if flat and len(children) <= MAX_CONSTANTS:
        return False
    return _constant_count(children, _MAX_DEPTH) > (
        MAX_CONSTANTS if flat else _MAX_NESTED_CONSTANTS
    )


def _constant_count(items: tuple[Any, ...], depth: int) -> float:
    """How many plain values there are; negative if there is anything else."""
    total = 0.0
    for x in items:
        if is_constant_tuple(x) and depth:
            total += len(x)
        elif type(x) in BUILTIN_CONTAINERS and depth:
            total += _constant_count(container_contents(x), depth - 1)
        elif x is not None and not ConstantKey(x).is_by_value:
            return -math.inf
        if total < 0:
            break
        total += type(x) not in BUILTIN_CONTAINERS
    return total


def can_be_promoted(x: Any) -> bool:
    """Whether a captured value could be an input. A bool is a flag: see `leaf_of`."""
    return isinstance(leaf_of(x), ScalarLeaf) and type(x) is not np.bool_


def captured_leaves(call: Signature) -> dict[SourcePath, Leaf]:
    """The leaves at sources, in order, by their path from their source."""
    return {
        (call.sources[at - call.first_source], way): call.leaves[number]
        for (at, way), node, number in iter_nodes(call)
        if at >= call.first_source and node.cls is None
    }


def leaf_labels(call: Signature) -> list[str]:
    """How messages name each leaf."""
    return [
        head + path
        for head, structure in zip(_root_labels(call), call.structures, strict=True)
        for path in _label_suffixes(structure)
    ]


def path_label(call: Signature, path: SignaturePath) -> str:
    """How messages name what is at a path."""
    number, way = path
    text, structure = _root_labels(call)[number], call.structures[number]
    for at in way:
        if not structure.children:
            return f"an item of {text}"
        label = structure.labels()[at]
        text += f"[{at if label is None else label!r}]"
        structure = structure.children[at]
    return text


def _root_labels(call: Signature) -> list[str]:
    """How messages name each argument and source."""
    arguments = (*range(call.positional_count), *call.names)
    return [*(f"argument {x}" for x in arguments), *(source.label for source in call.sources)]


def signature_difference(old: Signature, new: Signature) -> tuple[int, str]:
    """How many leaves are new or differ in a signature, and a text that describes the first."""
    before = dict(zip(leaf_labels(old), old.leaves, strict=True))
    after = dict(zip(leaf_labels(new), new.leaves, strict=True))
    found = [f"{name} is there" for name in after if name not in before]
    found += [f"{name} is not there" for name in before if name not in after]
    found += [
        f"{name} is {_describe_leaf(leaf)}, not {_describe_leaf(before[name])}"
        for name, leaf in after.items()
        if name in before and before[name] != leaf and not _accepts(before[name], leaf)
    ]
    return len(found), found[0] if found else "a structure of other classes"


def _accepts(leaf: Leaf, now: Leaf) -> bool:
    """Whether an input leaf takes what is a constant in another trace."""
    return (
        isinstance(leaf, ScalarLeaf)
        and isinstance(now, ConstantKey)
        and type(now.value) is leaf.cls
    )


def _describe_leaf(leaf: Leaf) -> str:
    if isinstance(leaf, ClassGuard):
        return "what it is by now"
    if isinstance(leaf, ConstantKey):
        return "another object" if leaf.value is None else reprlib.repr(leaf.value)
    return str(leaf) if isinstance(leaf, (ArrayLeaf, ScalarLeaf)) else type(leaf).__name__.lower()


def _label_suffixes(structure: Structure) -> Iterator[str]:
    if structure.cls is None:
        yield ""
        return
    for at, (label, child) in enumerate(zip(structure.labels(), structure.children, strict=True)):
        for rest in _label_suffixes(child):
            yield f"[{at if label is None else label!r}]{rest}"
