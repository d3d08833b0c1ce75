"""What a trace takes for granted of the objects it is given, beside what the signature says.

Owns: the conditions, `Distinct` (these are different objects) and `Flags` (an array has these
flags), `distinct_in`, which says what must be distinct where the code compares objects, and
`check`, which has machine code look. The signature says which leaves are one object (`Twin`).

Invariant: a condition is looked at on each call, before anything is computed or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tracker.jit.guards.constants import BY_BITS, Static
from tracker.jit.guards.signature import Array, Leaf, Node, Scalar, Signature, Twin
from tracker.jit.runtime.cpython_layout import FLAGS
from tracker.jit.runtime.ir_text_writer import Writer
from tracker.support.structs import record
from tracker.tree import Structure


@record(frozen=True)
class Distinct:
    """These are different objects: leaves, by their numbers, or containers, by their nodes."""

    of: tuple[int | Node, ...]

    def holds(self, leaves: Sequence[Any], container: Callable[[Node], Any]) -> bool:
        found = [leaves[at] if isinstance(at, int) else container(at) for at in self.of]
        return len(set(map(id, found))) == len(found)


@record(frozen=True)
class Flags:
    """Of the flags of the array that leaf number `leaf` is, those in `mask` are `flags`."""

    leaf: int
    mask: int
    flags: int

    def holds(self, leaves: Sequence[Any], _: Callable[[Node], Any]) -> bool:
        return bool(leaves[self.leaf].flags.num & self.mask == self.flags)


Condition: TypeAlias = Distinct | Flags


def distinct_in(call: Signature) -> tuple[Distinct, ...]:
    """What code that compares objects must find distinct, as a trace of the call does: arrays that
    are alike, containers of one class, a number that is given and one that stands at a place."""
    own = sum(s.count for s in call.structures[: len(call.structures) - len(call.places)])
    alike: dict[Any, list[int | Node]] = {}
    for number, leaf in enumerate(call.leaves):
        if isinstance(leaf, Array):
            alike.setdefault(leaf, []).append(number)
    again = {other for _, other in call.same}
    for node, structure, leaves in _containers(call):
        holds_array = any(isinstance(leaf, (Array, Twin)) for leaf in leaves)
        if node not in again and (holds_array or not issubclass(structure.cls or tuple, tuple)):
            alike.setdefault(structure.cls, []).append(node)
    numbers = [
        (one, other)
        for one, leaf in enumerate(call.leaves[:own])
        if isinstance(leaf, Scalar) and leaf.cls in BY_BITS
        for other, beside in enumerate(call.leaves[own:], own)
        if _class_of(beside) is leaf.cls
    ]
    groups = [*map(tuple, alike.values()), *numbers]
    return tuple([Distinct(group) for group in groups if len(group) > 1])


def _class_of(leaf: Any) -> type | None:
    """The class of a number at a place."""
    if isinstance(leaf, Scalar):
        return leaf.cls
    return type(leaf.value) if isinstance(leaf, Static) else None


def _containers(call: Signature) -> Iterator[tuple[Node, Structure, Sequence[Leaf]]]:
    """The containers in a signature, and the leaves in each."""
    first = 0
    todo: list[tuple[Structure, Node, int]] = []
    for at, structure in enumerate(call.structures):
        todo.append((structure, (at, ()), first))
        first += structure.count
    while todo:
        structure, node, first = todo.pop()
        if structure.cls is not None:
            yield node, structure, call.leaves[first : first + structure.count]
        for at, child in enumerate(structure.children):
            todo.append((child, (node[0], (*node[1], at)), first))
            first += child.count


def nodes_in(conditions: Iterable[Condition]) -> set[Node]:
    """The containers that conditions are about."""
    return {
        at
        for each in conditions
        if isinstance(each, Distinct)
        for at in each.of
        if type(at) is tuple
    }


def check(
    w: Writer,
    conditions: Iterable[Condition],
    leaves: Sequence[str],
    containers: Mapping[Any, str],
) -> None:
    """Have an entry look at the conditions; `leaves` and `containers` say where the objects are."""
    for each in conditions:
        if isinstance(each, Flags):
            flags = w.let(f"and i32 {w.load('i32', leaves[each.leaf], FLAGS)}, {each.mask}")
            w.check(w.equal("i32", flags, each.flags))
            continue
        found = [leaves[at] if isinstance(at, int) else containers[at] for at in each.of]
        if len(found) == 2:
            w.check(w.let(f"icmp ne ptr {found[0]}, {found[1]}"))
            continue
        table = w.alloca(f"[{len(found)} x ptr]")
        for at, x in enumerate(found):
            w.store("ptr", x, table, 8 * at)
        w.check(w.let(f"call i1 @native.distinct(ptr {table}, i64 {len(found)})"))
