"""Which objects of a call must be distinct, where code compares identities.

The signature says which leaves are one object (`AliasLeaf`); a `Condition` says which are not, or
which flags an array has. Invariant: conditions are checked on each call, before anything is
computed or written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tracker.jit.guards.constants import BIT_COMPARED_CLASSES, ConstantKey
from tracker.jit.guards.signature import (
    AliasLeaf,
    ArrayLeaf,
    Condition,
    DistinctObjects,
    ScalarLeaf,
    Signature,
    SignaturePath,
    iter_nodes,
)


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
