"""Tracked stand-ins where a traced function will look: arrays, and numbers that vary, at places.

Owns: `StandIns`, and `Containers`, which carries what a function does to the lists, dicts and
objects of its arguments over to the caller's. Plain NumPy on a captured array would go by unheard
(`2 * c`, `c.sum()`, `if c[0] > 2`, `c += x`), so a handle stands in its place while the function is
traced.

Invariants: what stood there stands there again afterwards, whatever happened; what the function put
there stays, as plain data; no handle of the trace stays behind. Another thread that reads such a
place meanwhile finds what stood there (`tape/placeholders.py`); `TURN` keeps traces from each
other.
"""

from __future__ import annotations

import gc
import os
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from tracker import tree
from tracker.jit.guards.signature import Node
from tracker.jit.guards.source import MISSING, Place, Spot, below, children_of, is_frozen, is_record
from tracker.jit.llvm.signals import UNDISTURBED
from tracker.tape.placeholders import stand, withdraw
from tracker.tape.record import value_of
from tracker.tape.tracked import Tracked


class Turn:
    """One thread at a time has stand-ins out. A forked child has the turn if its thread had it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @contextmanager
    def within(self, seconds: float) -> Iterator[bool]:
        """Whether this thread gets the turn within so many seconds; it has it meanwhile."""
        taken: list[bool] = []
        try:  # one call of C takes it and notes that: between the two, a signal could raise
            taken.extend(map(self.lock.acquire, [True], [seconds]))
            yield True in taken
        finally:
            if True in taken:
                self.lock.release()

    def after_fork(self) -> None:
        """Where the thread that had the turn is not there, what it has put out comes back."""
        if self.lock.acquire(blocking=False):
            self.lock.release()
            return
        self.lock = threading.RLock()
        for stand_ins in tuple(OUT):
            stand_ins.take_back()


TURN = Turn()
OUT: list[StandIns] = []  # whose handles stand at places, outermost first
os.register_at_fork(after_in_child=TURN.after_fork)
_Change: TypeAlias = "Callable[[Any, Spot], Any]"


class StandIns:
    """Handles at the places in question: for arrays by the array's id, for numbers by their spot
    (one number may be an object that stands everywhere)."""

    def __init__(
        self, places: Sequence[Place], handles: Mapping[int, Any], numbers: Mapping[Spot, Any]
    ) -> None:
        self.places = places
        self.holders = {id(place.holder.value) for place in places}
        self.handles = handles
        self.numbers = numbers
        self.out: dict[Spot, Tracked] = {}  # the handles that stand somewhere
        self.stood: list[tuple[Place, Any]] = []  # what the function finds
        self.lent: list[Place] = []  # where they do for objects that may get one of their own
        self.known = Known({})  # what belongs in the place of each handle
        self._is_over = False  # whether the function has run
        self.shares = False  # whether a view is put beside what it is a view of
        self.rebuilt: dict[int, tuple[Any, Any]] = {}  # the id of a tuple made anew -> it, the old

    def put(self, leaves: Sequence[Any], originals: Mapping[int, Any]) -> None:
        """Have the handles stand at the places instead of what `leaves` says is there now;
        `originals`: the id of each handle -> the leaf that it stands for."""
        OUT.append(self)
        self.known = Known({**originals, **{id(x): x for x in leaves if type(x) is Tracked}})
        self.lent = [lender for place in self.places if (lender := place.lender)]
        self._everywhere(self._handle, self.places)
        self.stood = [(place, place.read()) for place in self.places]

    def take_back(self) -> None:
        """Have what it was stand there again, and plain data for handles that are new: `surely`."""
        self._is_over = True
        try:
            self._everywhere(self._plain, (*self.places, *self.lent))
            for place, x in self.stood:
                if place.read() is not x:  # it has left, and somebody else may know it
                    self._changed(x, self._plain, (), (place, ()))
            for new, old in self.rebuilt.values():
                self.known.keep(new, old)
        finally:
            for handle in self.out.values():
                withdraw(handle)
            if self in OUT:
                OUT.remove(self)

    def tidy(self, places: Sequence[Place]) -> None:
        """Have plain data stand where the function has put handles and nothing of ours stood:
        `places` are those that it can read now."""
        known, self.shares = frozenset(self.places), True
        self._everywhere(self._plain, [place for place in places if place not in known])

    def _everywhere(self, change: _Change, places: Iterable[Place]) -> None:
        for place in places:
            x = place.read()
            made = self._changed(x, change, (), (place, ()))
            if made is not x:
                place.replace(x, made)

    def _handle(self, x: Any, spot: Spot) -> Any:
        if id(x) in self.known.of:  # its container stands at two places
            return x
        if spot[0].is_fixed and isinstance(x, np.ndarray):
            return x
        handle = self.numbers.get(spot)
        if handle is None:
            handle = self.handles.get(id(x))
        if handle is None:
            return x
        self.known.of[id(handle)] = x
        if type(handle) is Tracked:
            stand(handle, x)
            self.out[spot] = handle
        return handle

    def _plain(self, x: Any, spot: Spot) -> Any:
        view = getattr(x, "_view", None) if type(x) is Tracked else None
        shares = view is not None and (self.shares or id(root_of(x)) in self.known.of)
        if view is not None and shares and id(x) not in self.known.of:
            base = self._plain(view.base, spot)
            made = view.cut(base)
            if np.may_share_memory(made, base):
                self.known.keep(x, made)
        return self.known.plain(x)

    def _changed(self, x: Any, change: _Change, above: tuple[int, ...], spot: Spot) -> Any:
        """`x` with its leaves changed: lists and dicts in place, others made anew. A container that
        the function was given is the caller's."""
        if id(x) in self.known.of:
            return change(x, spot)
        with_plain_keys(x)
        is_in = x is MISSING or id(x) in above
        apart = spot[0].is_apart or (self._is_over and id(x) not in self.holders)
        if self._is_over and _holds_objects(x) and not is_in:
            for at, old in enumerate(x.flat):
                new = self._changed(old, change, (*above, id(x)), below(spot, at))
                if new is not old:
                    x.flat[at] = new
            return x
        parts = None if is_in else children_of(x, apart)
        if parts is None:
            return change(x, spot)
        names, children = parts
        made = [
            self._changed(child, change, (*above, id(x)), below(spot, at))
            for at, child in enumerate(children)
        ]
        if isinstance(x, (list, dict, deque)):
            where = names if isinstance(x, dict) else range(len(made))
            for key, old, new in zip(where, children, made, strict=True):
                _replace(x, key, old, new)
            if self._is_over:
                self.known.keep(x, x)
            return x
        if is_record(x) and not is_frozen(x):
            for name, old, new in zip(names, children, made, strict=True):
                if new is not old and getattr(x, name) is old:
                    object.__setattr__(x, name, new)
            if self._is_over:
                self.known.keep(x, x)
            return x
        if all(a is b for a, b in zip(made, children, strict=True)):
            return x
        known = self.rebuilt.get(id(x))
        if known is not None:
            return known[1]
        new = tree.rebuild(type(x), names, made, x)
        if self._is_over and is_frozen(x):
            self.rebuilt[id(x)] = x, new  # the function has made it, and may have put it twice
        else:
            self.rebuilt[id(new)] = new, x
        if tree.is_method(x):
            self.known.keep(new, x)  # a method of a handle is no container
        return new


def _holds_objects(x: Any) -> bool:
    """Whether it is an array of Python's objects, in which a function may have put handles."""
    return type(x) is np.ndarray and x.dtype.kind == "O" and x.flags.writeable


def _replace(x: Any, key: Any, old: Any, new: Any) -> None:
    """An item of a list or dict by another, unless it is a third by now. What the user's class does
    when it is asked or written is not run: it may count, or refuse."""
    base: Any = next(cls for cls in (list, dict, deque) if isinstance(x, cls))
    try:
        if new is not old and base.__getitem__(x, key) is old:
            base.__setitem__(x, key, new)
    except LookupError:  # another thread has taken it out
        pass


def surely(put_back: Callable[[], None]) -> None:
    """Put back what can be put back twice: half of it done is as good as nothing. What signals
    raise waits; another thread can have this one raise something, too."""
    with UNDISTURBED:
        try:
            put_back()
        except BaseException:
            put_back()
            raise


def plain(x: Any) -> Any:
    """The data of a handle, as the caller's own; anything else as it is."""
    if type(x) is not Tracked:
        return x
    data = value_of(x).data
    return data.copy("K") if isinstance(data, np.ndarray) else data


def root_of(x: Any) -> Any:
    """The array that a handle is a view of; itself, if it is none."""
    while (view := getattr(x, "_view", None)) is not None:
        x = view.base
    return x


class Known:
    """What the caller gets for each handle, by the id of that: `of`. A handle that stands in two
    places is one object in both."""

    def __init__(self, of: Mapping[int, Any]) -> None:
        self.of = dict(of)
        self._alive: list[Any] = []  # so that no other handle has the id of one of these

    def plain(self, x: Any) -> Any:
        if type(x) is Tracked and id(x) not in self.of:
            self.keep(x, plain(x))
        return self.of.get(id(x), x)

    def keep(self, x: Any, what: Any) -> None:
        self.of[id(x)] = what
        self._alive.append(x)


def with_plain_keys(x: Any) -> Any:
    """`x`; if it is a dict, handles among its keys are plain from now on, and so are those in a
    set: their values are guarded, for they were hashed."""
    if isinstance(x, dict) and any(type(key) is Tracked for key in x):
        items = [(plain(key), value) for key, value in x.items()]
        x.clear()
        for key, value in items:
            x[key] = value
    elif isinstance(x, set) and any(type(item) is Tracked for item in x):
        members = [plain(item) for item in x]
        x.clear()
        x.update(members)
    return x


def plain_keys_within(x: Any) -> None:
    """The same of all dicts in a structure."""
    todo, seen = [x], {id(x): x}
    while todo:
        at = todo.pop()
        parts = tree.children_of(with_plain_keys(at) if isinstance(at, dict) else at)
        new = [child for child in (parts[1] if parts else ()) if id(child) not in seen]
        seen.update((id(child), child) for child in new)
        todo += new


def bare(error: BaseException, originals: Mapping[int, Any]) -> None:
    """Have an error that leaves the traced function, and what it came of, hold plain data."""

    def change(x: Any) -> Any:
        return originals[id(x)] if id(x) in originals else plain(x)

    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        todo += [at.__cause__, at.__context__]
        if any(map(holds_handle, at.args)):
            at.args = tuple(tree.map(change, x, objects=False) for x in at.args)
        for name, x in vars(at).items():
            if holds_handle(x):
                vars(at)[name] = tree.map(change, x, objects=False)


def holds_handle(x: Any) -> bool:
    """Whether a value that a trace works with is in something that a function made: in a closure, a
    generator, an object. Looks at a thousand things at most."""
    seen: dict[int, Any] = {}
    todo = [x]
    while todo and len(seen) < 1000:
        at = todo.pop()
        if type(at) is Tracked and not hasattr(at, "_owner"):
            return True
        if id(at) in seen or isinstance(at, _LEADS_NOWHERE):
            continue
        seen[id(at)] = at
        if type(at) is types.FunctionType:
            todo += [*(at.__closure__ or ()), at.__defaults__, at.__kwdefaults__]
        else:
            todo += gc.get_referents(at)
    return False


_LEADS_NOWHERE = (
    *(type(None), str, bytes, int, float, complex, np.ndarray, np.generic, np.dtype),
    *(type, types.ModuleType, types.CodeType),
)


class Containers:
    """The containers among the arguments that a traced function is given, and the caller's.

    The function's hold handles; what it takes out, puts in or puts elsewhere, it does to them.
    """

    def __init__(self, originals: Sequence[Any], given: Sequence[Any]) -> None:
        self.pairs: list[tuple[Any, Any, Any]] = []  # the caller's, the function's, what was in it
        self.nodes: list[Node] = []  # where each of these is among the arguments
        self.originals: dict[int, Any] = {}
        self._seen: set[int] = set()  # the ids of the caller's
        self._twice = False  # whether one of them stands at two places
        self.is_kept = False  # whether the function has changed one of them by another name
        for at, (original, copy) in enumerate(zip(originals, given, strict=True)):
            self._pair(original, copy, (at, ()))

    def _pair(self, original: Any, copy: Any, node: Node) -> None:
        parts = tree.opened(copy)
        if parts is None or original is copy:
            return
        self._twice |= id(original) in self._seen
        self._seen.add(id(original))
        self.originals[id(copy)] = original
        self.pairs.append((original, copy, parts))
        self.nodes.append(node)
        for at, (one, other) in enumerate(zip(_children(original), parts[1], strict=True)):
            self._pair(one, other, below(node, at))

    @property
    def changed(self) -> bool:
        """Whether the function has changed one of them."""
        return any(_differ(tree.opened(copy), was) for _, copy, was in self.pairs)

    @property
    def tangled(self) -> bool:
        """Whether one was given twice and changed: the function was to see that in both places."""
        return self.is_kept or (self._twice and self.changed)

    def carry_out(self, plain: Callable[[Any], Any]) -> None:
        """Do to the caller's containers what was done to the function's; `plain` of a leaf."""
        for original, copy, was in self.pairs:
            if _differ(tree.opened(copy), was):
                self._assign(original, copy, plain)

    def _assign(self, original: Any, copy: Any, plain: Callable[[Any], Any]) -> None:
        found = tree.opened(with_plain_keys(copy))
        assert found is not None
        values = [self._plain(child, plain) for child in found[1]]
        if isinstance(original, list):
            original[:] = values
        elif isinstance(original, dict):
            original.clear()
            for name, value in zip(found[0], values, strict=True):
                original[name] = value
        else:
            for name, value in zip(found[0], values, strict=True):
                object.__setattr__(original, name, value)

    def _plain(self, x: Any, plain: Callable[[Any], Any]) -> Any:
        if id(x) in self.originals:
            return self.originals[id(x)]
        parts = tree.children_of(with_plain_keys(x))
        if parts is None:
            return plain(x)
        return tree.rebuild(type(x), parts[0], [self._plain(child, plain) for child in parts[1]], x)


def _children(x: Any) -> tuple[Any, ...]:
    parts = tree.opened(x)
    return () if parts is None else parts[1]


def _differ(now: Any, was: Any) -> bool:
    """Whether (names, children) are others."""
    return (
        now[0] != was[0]
        or len(now[1]) != len(was[1])
        or any(a is not b for a, b in zip(now[1], was[1], strict=True))
    )
