"""Side effects: what a function writes to its sources, and into containers that it is given.

`StateSnapshot` is what the sources had at one time. `StateDiff` compares a snapshot with the state
after a traced run and finds `StateWrite`s, which each later call repeats: `apply_state_writes` in
Python, `jit/abi/state_writes.py` in machine code. So a function that counts, or updates a moving
average or an optimiser's state, is one that reads this state as an input and returns it as a
result.

A trace whose own run changed what it reads in any other way would match no later call, and is not
kept: `PostTraceState.is_unchanged`.

Invariants: a write stores what the plain function stores, an existing object as itself. Where a
trace cannot express that (an object created at each call, a container at two sources, a part of a
result next to a view of it), there are no writes, and the trace is dropped. Writes happen when
nothing can fail any more, so a failing guard leaves nothing written.
"""

from __future__ import annotations

import copy
import datetime
import enum
import functools
import itertools
import operator
import os
import sys
import threading
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.errors import message
from tracker.jit.discovery.captured_state import CapturedState
from tracker.jit.guards.captured_leaves import (
    captured_leaves,
    leaf_labels,
    path_label,
    structure_at,
)
from tracker.jit.guards.constants import ConstantKey, StructuralKey, is_constant_tuple
from tracker.jit.guards.promotion import captured_numbers, is_changed_number
from tracker.jit.guards.signature import (
    AppendOnlyLeaf,
    Leaf,
    Signature,
    SignaturePath,
    StateWrite,
    iter_nodes,
    no_alias_pairs,
)
from tracker.jit.guards.source import (
    MISSING,
    AttributeSource,
    CellSource,
    ItemSource,
    Source,
    SourcePath,
    builtin_attribute_method,
    child_path,
    has_instance_dict,
    is_frozen_dataclass,
    is_plain_dataclass,
    source_children,
)
from tracker.jit.tracing.inputs import TracedInputs
from tracker.jit.tracing.placeholder_swap import ArgumentContainers, same_contents, untrack_keys
from tracker.ops.shape.create import buffer
from tracker.random.draw_ops import RollbackLog
from tracker.support.array_copies import copy_with_layout, same_bytes
from tracker.support.instances import class_attribute, instance_dict, is_user_class
from tracker.support.structs import record
from tracker.tape.tracked import Tracked, view_root
from tracker.tree import Structure

_Parts: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
# Objects that a write may share between calls.
_SHARED_CLASSES = (
    *(type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, type(...)),
    *(type, types.ModuleType, types.BuiltinFunctionType, np.ufunc),
    *(enum.Enum, range, datetime.date, datetime.timedelta),
)
_MAX_ALIAS_CHECKS = 2000  # pairs of containers compared on each call
_KEY_CLASSES = {str, bytes, int, float, bool, type(None)}
_UNSTABLE_CLASSES = {str, bytes, int, float, complex}


class StateSnapshot:
    """The values at sources, and the contents of the containers there, at one time."""

    def __init__(self, sources: Iterable[Source], arrays: bool = False) -> None:
        self.entries = [(source, source.read(), source.is_on_holder) for source in sources]
        # By id: a container, its contents, and the number of its source with the path from there.
        self.containers: dict[int, tuple[Any, _Parts, tuple[int, tuple[int, ...]]]] = {}
        self.arrays: list[tuple[Any, Any]] | None = [] if arrays else None
        for at, (_, x, _) in enumerate(self.entries):
            self._add_containers(x, (at, ()))

    def _add_containers(self, x: Any, way: tuple[int, tuple[int, ...]]) -> None:
        if x is MISSING or id(x) in self.containers:
            return
        if is_constant_tuple(x):
            self.containers[id(x)] = x, ((), x), way
            return
        parts = source_children(x, self.entries[way[0]][0].is_flattened)
        if type(x) is np.ndarray and self.arrays is not None:
            self.arrays.append((x, copy_with_layout(x)))
        elif parts is not None:
            self.containers[id(x)] = x, parts, way
            for at, child in enumerate(parts[1]):
                self._add_containers(child, child_path(way, at))

    def contains_dataclass(self, x: Any) -> bool:
        """Whether an object is a mutable dataclass that was at a source: a copy would not do."""
        return is_plain_dataclass(x) and not is_frozen_dataclass(x) and id(x) in self._ids

    @functools.cached_property
    def _ids(self) -> set[int]:
        inside = (child for _, (_, children), _ in self.containers.values() for child in children)
        at = ((source.holder.value, was) for source, was, _ in self.entries)
        return set(map(id, (*inside, *itertools.chain.from_iterable(at))))

    @property
    def has_changed(self) -> bool:
        """Whether a source or container differs now."""
        found = ((source.read(), was) for source, was, _ in self.entries if not source.is_read_only)
        return not all(_is_unchanged(now, was) for now, was in found) or not all(
            _has_contents(x, was) for x, was, _ in self.containers.values()
        )

    @property
    def changed_names(self) -> list[str]:
        """The names of the attributes and variables that differ now."""
        return [
            str(source.name)
            for source, was, _ in self.entries
            if not source.is_read_only and not _is_unchanged(source.read(), was)
        ]

    @property
    def has_only_filled_gaps(self) -> bool:
        """Whether what differs now was missing or None, as where caches are filled."""
        changed = (
            was is not None and was is not MISSING and not _is_unchanged(source.read(), was)
            for source, was, _ in self.entries
            if not source.is_read_only
        )
        return not any(changed) and all(
            _keeps_contents(x, was) for x, was, _ in self.containers.values()
        )

    def with_leaves(self, change: Callable[[Any], Any]) -> StateSnapshot:
        """The snapshot with other leaves at the sources and in the containers there."""
        other = copy.copy(self)
        other.entries = [(source, _with_leaves(x, change), own) for source, x, own in self.entries]
        other.containers = {
            number: (x, (names, tuple(_with_leaves(child, change) for child in children)), way)
            for number, (x, (names, children), way) in self.containers.items()
        }
        return other

    def restore(self, but_filled_gaps: bool = False) -> None:
        """Restore the values and contents, but for what was missing or None."""
        for array, held in self.arrays or ():
            if not same_bytes(array, held):
                array[...] = held
        for source, was, own in self.entries:
            if source.is_read_only or (but_filled_gaps and (was is None or was is MISSING)):
                continue
            if not _is_unchanged(source.read(), was):
                source.write(was, own)
        for x, (names, children), _ in self.containers.values():
            if _has_contents(x, (names, children)):
                continue
            if isinstance(x, (list, deque)):
                x.clear()
                x.extend(children)
            elif isinstance(x, dict):
                if not but_filled_gaps:
                    x.clear()
                x.update(zip(names, children, strict=True))
            elif is_plain_dataclass(x):
                for name, child in zip(names, children, strict=True):
                    object.__setattr__(x, name, child)


class StateRollbackLog(RollbackLog):
    """Context of a run that may be abandoned: its random draws and writes are rolled back, so that
    the function can run again; with `arrays`, also what it wrote into captured arrays."""

    def __init__(self, captured: CapturedState, arrays: bool = False) -> None:
        super().__init__()
        self._snapshot = StateSnapshot(captured.sources, arrays)
        self._stored = captured.names.stored
        self._attribute_names = [
            (x, frozenset(instance_dict(x)))
            for x in captured.objects
            if has_instance_dict(x) and not isinstance(x, (type, types.ModuleType))
        ]

    def roll_back(self) -> None:
        super().roll_back()
        self._snapshot.restore()
        for x, names in self._attribute_names:
            for name in (instance_dict(x).keys() - names) & self._stored:
                builtin_attribute_method(x, "__delattr__")(x, name)

    @property
    def has_written(self) -> bool:
        """Whether captured state differs now."""
        return self._snapshot.has_changed or any(
            not (instance_dict(x).keys() - names).isdisjoint(self._stored)
            for x, names in self._attribute_names
        )


def container_paths(
    call: Signature, snapshot: StateSnapshot, containers: ArgumentContainers
) -> dict[int, SignaturePath]:
    """The path in the signature of each container that the function was given or found at a source,
    by id, if the signature flattens it."""
    first = call.first_source
    found = [(x, (first + at, path)) for x, _, (at, path) in snapshot.containers.values()]
    found += [(copy, path) for _, copy, _, path in containers.pairs]
    return {id(x): path for x, path in found if structure_at(call, path).cls is type(x)}


@record()
class ObservedWrites:
    """The writes of a run; `leaves` are those of all structures in `writes`, in order.
    `is_certain`: no other thread can have made them."""

    writes: list[StateWrite]
    leaves: list[Any]
    is_certain: bool


_PLAIN_CLASSES: dict[type, type] = {deque: list, set: tuple, frozenset: tuple, defaultdict: dict}
_RETURN_IT = "Return the new value, and pass it to the next call"
_STORE_PLAIN = (
    "Store numbers, text, arrays, and tuples, lists, dicts or dataclasses of them that the call "
    "makes for this place alone"
)


class _Unrepresentable(Exception):
    """A trace cannot express what was written; says what, and what to do instead."""

    def __init__(self, what: str, instead: str = _RETURN_IT) -> None:
        super().__init__(message(what, instead, ""))


class StateDiff:
    """Compares a snapshot, which has what a function has found, including tracked arrays, with the
    state now. Start at `find_writes`."""

    def __init__(
        self,
        call: Signature,
        inputs: TracedInputs,
        captured: CapturedState,
        snapshot: StateSnapshot,
        containers: ArgumentContainers,
        paths: Mapping[int, SignaturePath],
    ) -> None:
        self.call = call
        self.captured = captured
        self.snapshot = snapshot
        self.containers = containers
        self.writes: list[StateWrite] = []
        self.leaves: list[Any] = []
        self._target_text = ""  # where a value is stored
        self.refusal = ""  # why a trace cannot express the writes
        self.is_certain = True
        self.is_only_thread = _is_only_thread()
        self.input_numbers = inputs.numbers_by_handle()
        self.constant_ids = {
            id(x)
            for x, leaf in zip(inputs.leaves, call.leaves, strict=True)
            if isinstance(leaf, ConstantKey) and not leaf.is_by_value
        }
        self.container_paths = paths
        self.escaping_ids = {*snapshot.containers, *containers.originals}
        self.append_only_paths = {
            path
            for path, node, number in iter_nodes(call)
            if node.cls is None and call.leaves[number] == AppendOnlyLeaf()
        }
        self.visited_ids: set[int] = set()
        self.changed_ids: set[int] = set()

    def find_writes(self, result: Any) -> ObservedWrites | None:
        """What a function with this result has written to sources, and into the containers of its
        arguments; None if a trace cannot express it: `refusal` says why."""
        self.escaping_ids.update(map(id, _containers_in(result)))
        pairs, snapshot = self.containers.pairs, self.snapshot
        # where the function has seen another container than that among its arguments
        is_captured = any(id(original) in snapshot.containers for original, *_ in pairs)
        try:
            for number, entry in enumerate(snapshot.entries, self.call.first_source):
                self._compare_source(*entry, number)
            for _, copy, was, path in pairs:
                now = tree.children_or_attributes(untrack_keys(copy))
                self._compare_container(copy, was, now, path)
            self._check_views(tree.leaves(result))
            self._check_aliases(is_captured)
        except _Unrepresentable as error:
            self.refusal = str(error)
            self.containers.is_captured = is_captured
            return None
        return ObservedWrites(self.writes, self.leaves, self.is_certain)

    def _check_aliases(self, is_captured: bool) -> None:
        """Refuse writes to containers that may be one object, if each call would compare many."""
        checks = len(no_alias_pairs(self.call, self.writes))
        if checks > _MAX_ALIAS_CHECKS:
            what = f"it changes containers, and is given {checks:,} pairs that may be one object"
            raise _Unrepresentable(what, "Keep the state in arrays")
        if self.writes and is_captured:
            raise _Unrepresentable(
                "it is given a container that it also finds elsewhere, and writes",
                "Pass another, or nothing",
            )

    def _compare_source(self, source: Source, was: Any, on_holder: bool, number: int) -> None:
        """Compare the value at a source, whose structure has this number."""
        references = sys.getrefcount(source.read())
        now = source.read()
        if was is not MISSING:
            self._compare_below(was, (number, ()))  # it may be referenced elsewhere
        if now is was or source.is_read_only:
            return
        names = self.captured.names
        is_ours = names.writes_unknown or source.name in names.stored  # not another thread's
        if now is MISSING:
            raise _Unrepresentable(f"it deletes {source.label}", "Assign None")
        if not is_ours:
            raise _Unrepresentable(
                f"{source.label} changes, and no assignment in its code names it"
            )
        if not _is_writable(source, was, on_holder):
            is_of_class = isinstance(source.holder.value, type)
            raise _Unrepresentable(
                f"it assigns to {source.label}" + ", an attribute of a class" * is_of_class,
                "Keep it in an object, or in a global variable" if is_of_class else _RETURN_IT,
            )
        fresh = type(now) is np.ndarray and references == _SINGLE_REFERENCE_COUNT
        self._add_write("source", source, None, now, fresh)

    def _compare_below(self, x: Any, path: SignaturePath) -> None:
        """Compare the contents of a value that is still at its source."""
        known = self.snapshot.containers.get(id(x))
        if known is None or is_constant_tuple(x):
            return
        was = known[1]
        now = source_children(untrack_keys(x), True)
        if now is None:
            what = f"it gives {path_label(self.call, path)} attributes that are no fields of it"
            raise _Unrepresentable(what, "Declare them as fields of the dataclass")
        if id(x) in self.visited_ids:
            if id(x) in self.changed_ids:
                # Through which source is not in the trace.
                what = f"it changes {path_label(self.call, path)}, and finds it elsewhere, too"
                raise _Unrepresentable(what, "Refer to it by one name")
            return
        self.visited_ids.add(id(x))
        self._compare_container(x, was, now, path)
        if was[0] == now[0] and len(was[1]) == len(now[1]):
            for at, (old, new) in enumerate(zip(was[1], now[1], strict=True)):
                if old is new:
                    self._compare_below(new, child_path(path, at))

    def _compare_container(
        self, x: Any, was: _Parts, now: _Parts | None, path: SignaturePath
    ) -> None:
        assert now is not None
        if same_contents(was, now):
            return
        if path in self.append_only_paths and same_contents((was[0], now[1][: len(was[1])]), was):
            self._compare_list(was[1], now[1], path)
            return
        structure, label = structure_at(self.call, path), path_label(self.call, path)
        if structure.cls is not type(x):  # it is compared as one constant
            what = f"it changes {label}, a {type(x).__name__} whose items are no inputs of a trace"
            raise _Unrepresentable(what, "Keep numbers in an array")
        if id(x) in self.changed_ids:
            raise _Unrepresentable(f"it changes {label}, and finds it elsewhere, too")
        self.changed_ids.add(id(x))
        if type(x) in (list, deque):
            self._compare_list(was[1], now[1], path)
        elif type(x) in (dict, defaultdict, OrderedDict):
            self._compare_dict(was, now, path)
        elif was[0] == now[0] and hasattr(type(x), "__dataclass_fields__"):
            for name, old, new in zip(was[0], was[1], now[1], strict=True):
                if old is not new:
                    self._add_write("attribute", path, name, new)
        else:
            raise _Unrepresentable(f"it changes {label}, of class {type(x).__name__}")

    def _compare_list(self, was: Sequence[Any], now: Sequence[Any], path: SignaturePath) -> None:
        for at, (old, new) in enumerate(zip(was, now, strict=False)):
            if old is not new:
                self._add_write("item", path, at, new)
        for at in range(len(was), len(now)):
            is_only = _is_only_in(now, at)  # before another reference is on the stack
            self._add_write("append", path, None, now[at], is_only)
        for at in reversed(range(len(now), len(was))):
            self.writes.append(StateWrite("delete", path, at, None))

    def _compare_dict(self, was: _Parts, now: _Parts, path: SignaturePath) -> None:
        old = dict(zip(*was, strict=True))
        stay = [name for name in was[0] if name in now[0]]
        names = {*map(type, was[0]), *map(type, now[0])}
        if list(now[0][: len(stay)]) != stay or not names <= _KEY_CLASSES:
            what = f"it changes the order of the keys of {path_label(self.call, path)}, or has keys"
            raise _Unrepresentable(f"{what} that are neither numbers nor text")
        for name in was[0]:
            if name not in now[0]:
                self.writes.append(StateWrite("delete", path, name, None))
        for name, new in zip(*now, strict=True):
            if old.get(name, MISSING) is not new:
                self._add_write("item", path, name, new)

    def _add_write(
        self, kind: Any, target: Source | SignaturePath, key: Any, x: Any, fresh: bool = False
    ) -> None:
        label = target.label if isinstance(target, Source) else path_label(self.call, target)
        self._target_text = f"in {label}"
        self.writes.append(StateWrite(kind, target, key, self._written_structure(x, fresh)))

    def _written_structure(self, x: Any, fresh: bool = False) -> Structure:
        """The structure of a value that was written; `fresh`: nothing else refers to it."""
        if type(x) is Tracked or id(x) in self.container_paths:
            is_known = id(x) in self.input_numbers or id(x) in self.container_paths
            self.is_certain &= self.is_only_thread or not is_known
            self.leaves.append(x)
            return tree.LEAF
        # An equal immutable container does as well.
        is_immutable = type(x) is tuple or tree.is_namedtuple(type(x)) or is_frozen_dataclass(x)
        is_plain = type(x) in (list, dict) or is_plain_dataclass(x) or is_immutable
        is_made = is_plain and not self.snapshot.contains_dataclass(x)
        is_made |= fresh and (type(x) in (Counter, OrderedDict) or is_user_class(type(x)))
        parts = tree.children_or_attributes(untrack_keys(x)) if is_made else None
        if parts is not None and (id(x) not in self.escaping_ids or is_immutable):
            self.escaping_ids.add(id(x))
            names, items, before = parts[0], [*parts[1]], len(self.leaves)
            del parts  # another reference to each item
            is_only = [fresh and _is_only_in(items, at) for at in range(len(items))]
            kids = tuple(map(self._written_structure, items, is_only))
            return Structure(type(x), names, kids, len(self.leaves) - before)
        if fresh and type(x) is np.ndarray:
            x = buffer(copy_with_layout(x))
        elif not isinstance(x, _SHARED_CLASSES) and id(x) not in self.constant_ids:
            what = f"it stores an object of class {type(x).__name__} {self._target_text}"
            plain = _PLAIN_CLASSES.get(type(x))
            instead = f"Store {plain.__name__}(...) of it" if plain else _STORE_PLAIN
            raise _Unrepresentable(f"{what}, which no trace makes anew", instead)
        self.is_certain &= self.is_only_thread
        self.leaves.append(x)
        return tree.LEAF

    def _check_views(self, results: Iterable[Any]) -> None:
        """Refuse a value that was written next to a view of it: machine code would copy both."""
        roots: dict[int, int] = {}
        for x in (*self.leaves, *(results if self.leaves else ())):
            if type(x) is Tracked:
                root = id(view_root(x))
                if root not in self.input_numbers and roots.setdefault(root, id(x)) != id(x):
                    what = "it stores an array, and stores or returns a view of it"
                    raise _Unrepresentable(what, "Store a copy of one of them")


def _with_leaves(x: Any, change: Callable[[Any], Any]) -> Any:
    """A value with other leaves; a container that can be written to stays, as it is written to."""
    if isinstance(x, (list, deque, dict)) or is_plain_dataclass(x):
        return x
    leaves, structure = tree.flatten(x)
    changed = list(map(change, leaves))
    is_same = all(map(operator.is_, changed, leaves))
    return x if is_same else tree.unflatten(structure, changed, x)


def _is_unchanged(now: Any, was: Any) -> bool:
    """Whether it is the same object. C members create a new number or string on each read."""
    return now is was or (
        type(now) is type(was) and type(now) in _UNSTABLE_CLASSES and repr(now) == repr(was)
    )


def _has_contents(x: Any, was: _Parts) -> bool:
    """Whether a container has the contents that it had; a tuple always does."""
    return type(x) is tuple or same_contents(source_children(x, True), was)


def _keeps_contents(x: Any, was: _Parts) -> bool:
    """Whether a dict has what it had, and any other container has nothing else."""
    if isinstance(x, dict):
        return all(dict.get(x, name, MISSING) is child for name, child in zip(*was, strict=True))
    return _has_contents(x, was)


def _containers_in(x: Any) -> Iterator[Any]:
    """All containers in a structure."""
    parts = tree.children_of(x)
    if parts is not None:
        yield x
        for child in parts[1]:
            yield from _containers_in(child)


def _is_writable(source: Source, was: Any, on_holder: bool) -> bool:
    """Whether machine code can write to a source with one call of the interpreter's API."""
    holder = source.holder.value
    if isinstance(source, CellSource):
        return was is not MISSING
    if isinstance(source, ItemSource):
        return type(holder) is dict and holder is not os.environ._data  # type: ignore[attr-defined]
    if not isinstance(source, AttributeSource) or source.name.startswith("__"):
        return False
    if isinstance(holder, (type, functools.partial)):
        return False
    if builtin_attribute_method(holder, "__setattr__") is not object.__setattr__:
        return False
    raw = class_attribute(type(holder), source.name)
    if isinstance(raw, types.MemberDescriptorType):
        return True
    if hasattr(type(raw), "__set__") or not source.is_on_holder:
        return False
    return on_holder or was is MISSING or raw is was  # else the class attribute changed too


def _is_only_thread() -> bool:
    """Whether no other thread can have written anything; compile threads do not."""
    me = threading.get_ident()
    return all(t.ident == me or t.name == "tracker-compile" for t in threading.enumerate())


def _single_reference_count() -> int:
    """The reference count seen of an object that only a source refers to."""
    holder = types.SimpleNamespace(x=np.zeros(1))
    source = AttributeSource(ConstantKey(holder), "x", "")
    return sys.getrefcount(source.read())


_SINGLE_REFERENCE_COUNT = _single_reference_count()


def _reference_count(items: Sequence[Any], at: int) -> int:
    return sys.getrefcount(items[at])


def _item_reference_count() -> int:
    """The reference count seen of an item that only a list and a copy of that refer to."""
    held = [types.SimpleNamespace()]
    return _reference_count([*held], 0)


_ITEM_REFERENCE_COUNT = _item_reference_count()


def _is_only_in(items: Sequence[Any], at: int) -> bool:
    """Whether only a container, of whose children `items` is a copy, refers to one of them: an
    equal object that is made at each call does as well."""
    is_only = _reference_count(items, at) <= _ITEM_REFERENCE_COUNT
    return is_only and not weakref.getweakrefcount(items[at])


def apply_state_writes(
    state_writes: Sequence[StateWrite],
    values: Sequence[Any],
    container: Callable[[SignaturePath], Any],
) -> None:
    """Write values, the leaves of the writes' structures."""
    found = iter(values)
    made = [
        None
        if (structure := update.structure) is None
        else tree.unflatten(structure, itertools.islice(found, structure.count))
        for update in state_writes
    ]
    targets: list[Any] = [
        update.target if isinstance(update.target, Source) else container(update.target)
        for update in state_writes
    ]
    for update, target, x in zip(state_writes, targets, made, strict=True):
        if update.kind == "source":
            target.write(x, True)
        elif update.kind == "append":
            target.append(x)
        elif update.kind == "delete":
            del target[update.key]
        elif update.kind == "attribute":
            object.__setattr__(target, update.key, x)
        else:
            target[update.key] = x


@record()
class PostTraceState:
    """The signature and leaves of a call before and after its run."""

    signature: Signature
    leaves: Sequence[Any]
    signature_after: Signature
    leaves_after: Sequence[Any]

    def difference(self, state_writes: Sequence[StateWrite]) -> str:
        """Which source is new, or has another object, except where the function has written; "" if
        there is none."""
        if not state_writes and self.signature_after == self.signature:
            leaves = zip(self.signature.leaves, self.leaves, self.leaves_after, strict=True)
            same = [_is_same_object(*each) for each in leaves]
            if all(same):
                return ""
            return _replaced_text(leaf_labels(self.signature)[same.index(False)])
        if self.signature_after.sources != self.signature.sources:
            return _other_sources_text(self.signature.sources, self.signature_after.sources)
        first = self.signature.first_source
        put = {u.target if isinstance(u.target, Source) else u.target[0] for u in state_writes}
        before = _at_sources(self.signature, self.leaves)
        after = _at_sources(self.signature_after, self.leaves_after)
        found = zip(self.signature.sources, before, after, strict=True)
        for number, (source, old, new) in enumerate(found, first):
            if source in put or number in put:
                continue
            if old[:2] != new[:2] or not all(map(_is_same_object, old[1], old[2], new[2])):
                return _replaced_text(source.label)
        return ""

    @property
    def changed_numbers(self) -> tuple[frozenset[SourcePath], frozenset[SourcePath]]:
        """The paths at which a number has changed, and those at which there was none."""
        if self.signature_after == self.signature:
            return frozenset(), frozenset()
        before, numbers = captured_leaves(self.signature), captured_numbers(self.signature_after)
        moved = frozenset(
            path
            for path, x in numbers.items()
            if isinstance(old := before.get(path), ConstantKey) and is_changed_number(old, x)
        )
        return moved, frozenset(numbers.keys() - before.keys())


def _replaced_text(label: str) -> str:
    return message(f"{label} is not the same after each call", _RETURN_IT, "")


def _other_sources_text(before: Sequence[Source], now: Sequence[Source]) -> str:
    known, found = set(before), set(now)
    made = [source.label for source in now if source not in known]
    dropped = [source.label for source in before if source not in found]
    what = "it finds its state in another order"
    if made:
        what = f"it makes {made[0]}, which the next call finds"
    elif dropped:
        what = f"it drops {dropped[0]}"
    return message(what, "Change the object that is there, or return the new one", "")


def _is_same_object(leaf: Leaf, was: Any, now: Any) -> bool:
    """Whether it is the same object; a tuple that was built for a comparison never is."""
    return was is now or (type(leaf) is StructuralKey and leaf.cls is tuple)


def _at_sources(
    call: Signature, leaves: Sequence[Any]
) -> Iterator[tuple[Structure, Sequence[Leaf], Sequence[Any]]]:
    """The structure at each source, its leaves, and what is there."""
    first = sum(structure.count for structure in call.structures[: call.first_source])
    for structure in call.structures[call.first_source :]:
        here = slice(first, first + structure.count)
        yield structure, call.leaves[here], leaves[here]
        first = here.stop
