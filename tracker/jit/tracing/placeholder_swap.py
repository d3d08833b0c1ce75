"""Puts tracked placeholders where a traced function will look for captured arrays and numbers.

Plain NumPy on a captured array would not be recorded (`2 * c`, `c.sum()`, `if c[0] > 2`, `c += x`),
so while a function is traced a tracked array takes its place. `ArgumentContainers` copies what a
function does to the containers of its arguments over to the caller's.

Invariants: afterwards, whatever happened, the sources have what they had before, except for what
the function has written there, which stays as plain data; no tracked value stays behind. Another
thread that reads such a source meanwhile resolves the placeholder to what it stands for
(`tape/tracing/placeholders.py`); `TRACING_LOCK` admits one trace at a time.
"""

from __future__ import annotations

import gc
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.jit.guards.constants import is_constant_tuple
from tracker.jit.guards.signature import SignaturePath
from tracker.jit.guards.source import (
    MISSING,
    Source,
    SourcePath,
    child_path,
    is_frozen_dataclass,
    is_plain_dataclass,
    source_children,
)
from tracker.support.deferred_signals import SIGNALS_DEFERRED
from tracker.support.forks import register_at_fork
from tracker.tape.record import value_of
from tracker.tape.tracing.placeholders import add_placeholder, release_placeholder
from tracker.tape.tracked import Tracked, view_root


class TracingLock:
    """Lets one thread at a time have placeholders in place. In a forked child the lock is free,
    unless the forking thread held it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @contextmanager
    def acquire_within(self, seconds: float) -> Iterator[bool]:
        """Yield whether this thread gets the lock within so many seconds; it is held in the
        context. A swap that a signal has kept from being undone is undone at the end."""
        no_arguments: tuple[Any, ...] = ()
        taken: list[tuple[Any, ...]] = []  # the arguments of the call that releases the lock
        outer: list[int] = []  # the number of swaps of traces around this one
        try:
            try:  # one call in C locks and records it, so that no signal comes between
                is_taken = map(self.lock.acquire, [True], [seconds])
                taken.extend(map(no_arguments.__mul__, filter(None, is_taken)))
                outer.append(len(ACTIVE_SWAPS))
                yield bool(taken)
            finally:
                self._leave(taken, outer)
        finally:  # again if a signal has ended that before it was done
            self._leave(taken, outer)

    def _leave(self, taken: list[tuple[Any, ...]], outer: list[int]) -> None:
        """Undo the swaps since the lock was taken, and release it, unless that has been done."""
        if taken:
            for swap in ACTIVE_SWAPS[outer[0] :] if outer else ():
                run_idempotent(swap.restore)
            # Here, too, one call in C releases the lock and forgets that it is taken.
            any(starmap(self.lock.release, map(taken.pop, [0])))

    def reset_after_fork(self) -> None:
        """In a child without the thread that held the lock, undo that thread's swaps."""
        if self.lock.acquire(blocking=False):
            self.lock.release()
            return
        self.lock = threading.RLock()
        for swap in tuple(ACTIVE_SWAPS):
            swap.restore()


TRACING_LOCK = TracingLock()
ACTIVE_SWAPS: list[PlaceholderSwap] = []  # outermost first
register_at_fork(after_in_child=TRACING_LOCK.reset_after_fork)
_LeafChange: TypeAlias = "Callable[[Any, SourcePath], Any]"


class PlaceholderSwap:
    """Placeholders at the sources: for arrays by the array's id, for numbers by their path (one
    number object may be at many sources)."""

    def __init__(
        self,
        sources: Sequence[Source],
        handles_by_id: Mapping[int, Any],
        handles_by_path: Mapping[SourcePath, Any],
    ) -> None:
        self.sources = sources
        self.holder_ids = {id(source.holder.value) for source in sources}
        self.handles_by_id = handles_by_id
        self.handles_by_path = handles_by_path
        self.sources_of_handles = {source for source, _ in handles_by_path}
        self.installed: dict[SourcePath, Tracked] = {}
        self.found: list[tuple[Source, Any]] = []  # the values after `install`
        self.class_sources: list[Source] = []  # of inherited attributes
        self.plain_values = PlainValues({})
        self._has_run = False
        self.keeps_views = False  # whether views stay views of arrays written next to them
        self.rebuilt: dict[int, tuple[Any, Any]] = {}  # by id: new tuple, original

    def install(self, leaves: Sequence[Any], originals: Mapping[int, Any]) -> None:
        """Replace the values at the sources, which are `leaves`, by placeholders. `originals`: the
        leaf that each tracked array stands for, by its id."""
        ACTIVE_SWAPS.append(self)
        tracked = {id(x): x for x in leaves if type(x) is Tracked}
        self.plain_values = PlainValues({**originals, **tracked})
        self.class_sources = [s for source in self.sources if (s := source.class_source)]
        self._replace_everywhere(self._placeholder_for, self.sources)
        self.found = [(source, source.read()) for source in self.sources]

    def restore(self) -> None:
        """Put the original values back, and plain data in the place of new tracked values. May run
        twice: see `run_idempotent`."""
        self._has_run = True
        try:
            self._replace_everywhere(self._plain_for, (*self.sources, *self.class_sources))
            for source, x in self.found:
                if source.read() is not x:  # it was replaced, and may be referenced elsewhere
                    self._replaced(x, self._plain_for, (), (source, ()))
            for new, old in self.rebuilt.values():
                self.plain_values.bind(new, old)
        finally:
            for handle in self.installed.values():
                release_placeholder(handle)
            if self in ACTIVE_SWAPS:
                ACTIVE_SWAPS.remove(self)

    def clean_new_sources(self, sources: Sequence[Source]) -> None:
        """Put plain data in the place of tracked values at sources that are new."""
        known, self.keeps_views = frozenset(self.sources), True
        self._replace_everywhere(
            self._plain_for, [source for source in sources if source not in known]
        )

    def _replace_everywhere(self, change: _LeafChange, sources: Iterable[Source]) -> None:
        for source in sources:
            x = source.read()
            made = self._replaced(x, change, (), (source, ()))
            if made is not x:
                source.replace_if_unchanged(x, made)

    def _placeholder_for(self, x: Any, path: SourcePath) -> Any:
        if id(x) in self.plain_values.by_id:  # its container is at two sources
            return x
        if path[0].is_constant and isinstance(x, np.ndarray):
            return x
        handle = self.handles_by_path.get(path)
        if handle is None:
            handle = self.handles_by_id.get(id(x))
        if handle is None:
            return x
        self.plain_values.by_id[id(handle)] = x
        if type(handle) is Tracked:
            add_placeholder(handle, x)
            self.installed[path] = handle
        return handle

    def _plain_for(self, x: Any, path: SourcePath) -> Any:
        view = getattr(x, "_view", None) if type(x) is Tracked else None
        shares = view is not None and (
            self.keeps_views or id(view_root(x)) in self.plain_values.by_id
        )
        if view is not None and shares and id(x) not in self.plain_values.by_id:
            base = self._plain_for(view.base, path)
            made = view.cut(base)
            if np.may_share_memory(made, base):
                self.plain_values.bind(x, made)
        return self.plain_values.get(x)

    def _replaced(
        self, x: Any, change: _LeafChange, above: tuple[int, ...], path: SourcePath
    ) -> Any:
        """`x` with its leaves changed: lists, dicts and dataclasses in place, other containers
        rebuilt. A container among the function's arguments is the caller's."""
        if id(x) in self.plain_values.by_id:
            return change(x, path)
        if is_constant_tuple(x) and path[0] not in self.sources_of_handles:
            return x
        untrack_keys(x)
        is_in = x is MISSING or id(x) in above
        is_flattened = path[0].is_flattened or (self._has_run and id(x) not in self.holder_ids)
        if self._has_run and _is_object_array(x) and not is_in:
            for at, old in enumerate(x.flat):
                new = self._replaced(old, change, (*above, id(x)), child_path(path, at))
                if new is not old:
                    x.flat[at] = new
            return x
        parts = None if is_in else source_children(x, is_flattened)
        if parts is None:
            return change(x, path)
        names, children = parts
        made = [
            self._replaced(child, change, (*above, id(x)), child_path(path, at))
            for at, child in enumerate(children)
        ]
        if isinstance(x, (list, dict, deque)):
            where = names if isinstance(x, dict) else range(len(made))
            for key, old, new in zip(where, children, made, strict=True):
                _replace_item(x, key, old, new)
            if self._has_run:
                self.plain_values.bind(x, x)
            return x
        if is_plain_dataclass(x) and not is_frozen_dataclass(x):
            for name, old, new in zip(names, children, made, strict=True):
                if new is not old and getattr(x, name) is old:
                    object.__setattr__(x, name, new)
            if self._has_run:
                self.plain_values.bind(x, x)
            return x
        if all(a is b for a, b in zip(made, children, strict=True)):
            return x
        known = self.rebuilt.get(id(x))
        if known is not None:
            return known[1]
        new = tree.rebuild(type(x), names, made, x)
        if self._has_run and is_frozen_dataclass(x):
            self.rebuilt[id(x)] = x, new  # created by the function, and maybe stored twice
        else:
            self.rebuilt[id(new)] = new, x
        if tree.is_method(x):
            self.plain_values.bind(new, x)  # a bound method of a tracked array
        return new


def _is_object_array(x: Any) -> bool:
    """Whether an array holds Python objects, among which a function may have put tracked values."""
    return type(x) is np.ndarray and x.dtype.kind == "O" and x.flags.writeable


def _replace_item(x: Any, key: Any, old: Any, new: Any) -> None:
    """Replace an item of a list or dict, unless it is another object by now. Overridden methods of
    user classes do not run: they may count, or refuse."""
    base: Any = next(cls for cls in (list, dict, deque) if isinstance(x, cls))
    try:
        if new is not old and base.__getitem__(x, key) is old:
            base.__setitem__(x, key, new)
    except LookupError:  # another thread has removed it
        pass


def run_idempotent(action: Callable[[], None]) -> None:
    """Run an action, and once more if it is interrupted. Signals are held back, but another thread
    can raise an exception in this one."""
    with SIGNALS_DEFERRED:
        try:
            action()
        except BaseException:
            action()
            raise


def plain_data(x: Any) -> Any:
    """A copy of the data of a tracked array; anything else unchanged."""
    if type(x) is not Tracked:
        return x
    data = value_of(x).data
    return data.copy("K") if isinstance(data, np.ndarray) else data


class PlainValues:
    """What the caller gets for each tracked array, by its id: one object wherever it is used."""

    def __init__(self, by_id: Mapping[int, Any]) -> None:
        self.by_id = dict(by_id)
        self._alive: list[Any] = []  # keeps their ids from being reused

    def get(self, x: Any) -> Any:
        if type(x) is Tracked and id(x) not in self.by_id:
            self.bind(x, plain_data(x))
        return self.by_id.get(id(x), x)

    def bind(self, x: Any, plain: Any) -> None:
        self.by_id[id(x)] = plain
        self._alive.append(x)


def untrack_keys(x: Any) -> Any:
    """Replace tracked values among the keys of a dict or the items of a set by plain data: they
    were hashed, so their values are guarded. Returns `x`."""
    if isinstance(x, dict) and any(type(key) is Tracked for key in dict.keys(x)):
        items = [(plain_data(key), value) for key, value in x.items()]
        x.clear()
        for key, value in items:
            x[key] = value
    elif isinstance(x, set) and any(type(item) is Tracked for item in x):
        members = [plain_data(item) for item in x]
        x.clear()
        x.update(members)
    return x


def untrack_nested_keys(x: Any) -> None:
    """Do the same for all dicts in a structure."""
    todo, seen = [x], {id(x): x}
    while todo:
        at = todo.pop()
        parts = tree.children_of(untrack_keys(at) if isinstance(at, dict) else at)
        new = [child for child in (parts[1] if parts else ()) if id(child) not in seen]
        seen.update((id(child), child) for child in new)
        todo += new


def untrack_error(error: BaseException, originals: Mapping[int, Any]) -> None:
    """Replace tracked values in an error that leaves the traced function, and in its causes, by
    plain data."""

    def change(x: Any) -> Any:
        return originals[id(x)] if id(x) in originals else plain_data(x)

    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        todo += [at.__cause__, at.__context__]
        if any(map(contains_handle, at.args)):
            at.args = tuple(tree.map(change, x, objects=False) for x in at.args)
        for name, x in vars(at).items():
            if contains_handle(x):
                vars(at)[name] = tree.map(change, x, objects=False)


def contains_handle(x: Any) -> bool:
    """Whether a tracked value is reachable from an object that a function created: a closure, a
    generator, an instance. Looks at a thousand objects at most."""
    return next(handles_within(x), None) is not None


def handles_within(x: Any, limit: int = 1000) -> Iterator[Tracked]:
    """The tracked values that are reachable from an object, of which at most `limit` parts are
    looked at."""
    seen: dict[int, Any] = {}
    todo = [x]
    while todo and len(seen) < limit:
        at = todo.pop()
        if type(at) is Tracked:
            if not hasattr(at, "_owner"):
                yield at
            continue
        if id(at) in seen or isinstance(at, _LEAF_CLASSES):
            continue
        seen[id(at)] = at
        if type(at) is types.FunctionType:
            todo += [*(at.__closure__ or ()), at.__defaults__, at.__kwdefaults__]
        else:
            todo += gc.get_referents(at)


_LEAF_CLASSES = (
    *(type(None), str, bytes, int, float, complex, np.ndarray, np.generic, np.dtype),
    *(type, types.ModuleType, types.CodeType),
)


class ArgumentContainers:
    """Pairs of the caller's containers and the copies that the traced function gets.

    The copies hold tracked values; what the function changes in them is applied to the caller's.
    """

    def __init__(self, originals: Sequence[Any], given: Sequence[Any]) -> None:
        # The caller's container, its copy, the contents of that at first, and the path.
        self.pairs: list[tuple[Any, Any, Any, SignaturePath]] = []
        self.originals: dict[int, Any] = {}
        self._seen: set[int] = set()  # ids of the caller's containers
        self._has_duplicate = False  # whether one was passed twice
        self.is_captured = False  # whether one was changed through a source
        for at, (original, copy) in enumerate(zip(originals, given, strict=True)):
            self._pair(original, copy, (at, ()))

    def _pair(self, original: Any, copy: Any, path: SignaturePath) -> None:
        parts = tree.children_or_attributes(copy)
        if parts is None or original is copy:
            return
        self._has_duplicate |= id(original) in self._seen
        self._seen.add(id(original))
        self.originals[id(copy)] = original
        self.pairs.append((original, copy, parts, path))
        _, children = tree.children_or_attributes(original) or ((), ())
        for at, (one, other) in enumerate(zip(children, parts[1], strict=True)):
            self._pair(one, other, child_path(path, at))

    @property
    def has_changed(self) -> bool:
        """Whether the function has changed a container."""
        return not all(
            same_contents(tree.children_or_attributes(copy), was) for _, copy, was, _ in self.pairs
        )

    @property
    def has_aliases(self) -> bool:
        """Whether a changed container was passed twice, or is captured: the function would have
        seen the change in both places."""
        return self.is_captured or (self._has_duplicate and self.has_changed)

    def apply(self, plain: Callable[[Any], Any]) -> None:
        """Change the caller's containers like the function's; `plain` maps a leaf."""
        for original, copy, was, _ in self.pairs:
            if not same_contents(tree.children_or_attributes(copy), was):
                self._assign(original, copy, plain)

    def _assign(self, original: Any, copy: Any, plain: Callable[[Any], Any]) -> None:
        found = tree.children_or_attributes(untrack_keys(copy))
        assert found is not None
        values = [self._original_for(child, plain) for child in found[1]]
        if isinstance(original, list):
            original[:] = values
        elif isinstance(original, dict):
            original.clear()
            for name, value in zip(found[0], values, strict=True):
                original[name] = value
        else:
            for name, value in zip(found[0], values, strict=True):
                object.__setattr__(original, name, value)

    def _original_for(self, x: Any, plain: Callable[[Any], Any]) -> Any:
        if id(x) in self.originals:
            return self.originals[id(x)]
        parts = tree.children_of(untrack_keys(x))
        if parts is None:
            return plain(x)
        return tree.rebuild(
            type(x), parts[0], [self._original_for(child, plain) for child in parts[1]], x
        )


def same_contents(a: Any, b: Any) -> bool:
    """Whether two (names, children), or None, are the same objects under the same names."""
    return (
        a is not None
        and a[0] == b[0]
        and len(a[1]) == len(b[1])
        and all(x is y for x, y in zip(a[1], b[1], strict=True))
    )
