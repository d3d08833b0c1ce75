"""Plain arrays become tracked when tracked values are written into them.

A tracked array takes the place of the plain one in the local variables of the user's running
functions and, if that is not all, where objects and containers hold it (there until the outermost
derivative has run its function: then the plain one is back, with the new numbers). Functions of
ours write into it (`tracked_target`). A store by NumPy, `a = nodes.copy(); a[0] = t`, asks for the
conversion of `t` while it is executed; NumPy is given *marks* to store (`marks_for_store`): NaNs
whose payload numbers the elements of `t`. Once the store is done, the marks in the plain array say
which element went where, whatever the subscript was, and also of lists of tracked and plain
numbers.

Invariant: nobody else can read the plain array meanwhile. When the call that writes is done,
nothing refers to it any more; else the call raises, and it has what it had before.
"""

from __future__ import annotations

import dis
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from tracker import tree
from tracker.ir.op import NUMPY
from tracker.support.frames.call_names import Call, running_call
from tracker.support.frames.cpython import after_instruction, frame_locals, set_frame_locals
from tracker.support.frames.holders import Place, attributes_holding, places_of
from tracker.support.frames.stored_into import STORES
from tracker.tape.conversion_errors import refused_store
from tracker.tape.live_leaves import depends_on_live_leaf, is_followed
from tracker.tape.observers import is_deriving, thread_state
from tracker.tape.record import value_of, wrap
from tracker.tape.tracing.tracer import current_tracer
from tracker.tape.tracked import Tracked
from tracker.tape.value import CLOSED, NO_PARAMS, Value, history_of
from tracker.user_frames import is_internal, is_own, line_of

_STORES = {dis.opmap[name] for name in STORES if name in dis.opmap}
_BITS: dict[int, tuple[Any, int]] = {  # of a mark, by the size of a float; and of its payload
    4: (np.uint32(0xFFC00000), 0x003FFFFF),
    8: (np.uint64(0xFFF8000000000000), 0x0007FFFFFFFFFFFF),
}


def marks_for_store(tracked: Tracked, frame: FrameType) -> Any:
    """What NumPy shall store in place of a tracked value, an array of its shape, if a frame stores
    it into an array that can become tracked; else None."""
    if frame.f_code.co_code[frame.f_lasti] not in _STORES:
        return None
    if not is_followed(value_of(tracked)):
        return None
    store = _running.store
    if store is not None and store.frame is frame:
        return store.marks(tracked)
    replacement = _replacement(running_call(frame), frame)
    if replacement is None:
        return None
    store = _MarkedStore(replacement, frame)
    marks = store.marks(tracked)
    if marks is not None:
        _running.store = store
        replacement.begin(frame, store.finish)
    return marks


def tracked_target(name: str, target: Any, values: Any) -> Any:
    """The tracked array that a function of NumPy's shall write tracked values into, in place of a
    plain one; None if that cannot become tracked. `name` is the function's, where it is not
    found."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return None
    found = _replacement(Call(running_call(frame).name or name, target=target), frame)
    if found is None:
        return None
    found.values += [x for x in tree.leaves(values) if type(x) is Tracked]
    found.begin(frame, found.check)
    return found.array


class _Replacement:
    """A tracked array in place of a plain one in local variables.

    call      that writes into the plain one
    before    what that has before
    values    the tracked values that are written
    taken     the places where the tracked one is meanwhile
    reserved  see `_reserve`
    """

    def __init__(
        self, call: Call, frame: FrameType, holders: Sequence[_Holder], reserved: Any
    ) -> None:
        self.call, self.line, self.holders = call, line_of(frame), holders
        self.reserved = reserved
        # The garbage collector does not know dicts of nothing but arrays.
        self.places = [
            place
            for x in frame_locals(frame).values()
            for place in attributes_holding(x, call.target)
        ]
        if call.place is not None:
            self.places.append(call.place)
        self.before = call.target.copy(order="K")
        self.array = wrap(Value(self.before.copy(order="K"), CLOSED, (), NO_PARAMS))
        self.values: list[Tracked] = []
        self.taken: list[Place] = []

    def begin(self, frame: FrameType, finish: Callable[[str], None]) -> None:
        if is_deriving():  # the end puts back what an interrupt may leave
            thread_state.put_back.append(self.put_back)
        for holder, name in self.holders:
            set_frame_locals(holder, {name: self.array})
        after_instruction(frame, finish)

    def check(self, event: str) -> None:
        """When the call is done, take the plain array's place in containers and objects, too, until
        the outermost derivative has run its function. Raise if something else refers to it."""
        if event == "exception" or self._is_unshared():
            self._forget()
            return
        for find in (lambda _: self.places, places_of) if _may_take_places() else ():
            for place in [*find(self.call.target)]:
                self.taken.append(place)
                place.write(self.array)
            if self._is_unshared():
                self.holders, self.values = (), []
                return
        for place in self.taken:
            place.write(self.call.target)
        self._forget()
        raise refused_store(self.call, self.values[0], self.line)

    def put_back(self) -> None:
        """Put the plain array back where the tracked one has been in its place, or is by now; not
        what a derivative in another thread has written into meanwhile. Once more does no harm."""
        if depends_on_live_leaf(value_of(self.array), params=False):
            return
        self.reserved = None
        self.call.target[...] = value_of(self.array).data
        for find in (lambda _: self.taken, places_of):
            for place in [*find(self.array)]:
                if place.read() is self.array:
                    place.write(self.call.target)
            if _references(weakref.ref(self.array)) == 1:
                return

    def _forget(self) -> None:
        self.reserved = None
        if self.put_back in thread_state.put_back:
            thread_state.put_back.remove(self.put_back)

    def _is_unshared(self) -> bool:
        """Whether nothing else refers to the plain array but the tape of what is stored, where only
        the shapes of such operands are read."""
        target = weakref.ref(self.call.target)
        operands = _operands_in(target, self.values)
        of_target = [count for operand, count in operands if operand() is target()]
        of_views = [
            _references(view) == count for view, count in operands if view() is not target()
        ]
        return all(of_views) and _references(target) == 1 + sum(of_target) + len(of_views)


class _MarkedStore:
    """A store that NumPy executes, of `count` elements so far."""

    def __init__(self, replacement: _Replacement, frame: FrameType) -> None:
        self.replacement, self.frame = replacement, frame
        self.count = 0

    def marks(self, tracked: Tracked) -> Any:
        """Marks of a value; None if the array's dtype cannot hold it, or number its elements."""
        before = self.replacement.before
        mark, payload = _mark_bits(before)
        if not np.can_cast(tracked.dtype, before.dtype, "same_kind"):
            return None
        if self.count + tracked.size > payload:
            return None
        numbers = self.count + np.arange(1, tracked.size + 1, dtype=mark.dtype)
        made = np.zeros(tracked.size, before.dtype)
        made.real = (mark | numbers).view(made.real.dtype)
        self.replacement.values.append(tracked)
        self.count += tracked.size
        return made.reshape(tracked.shape)

    def finish(self, event: str) -> None:
        """Read the marks when the store is done, or has failed."""
        _running.store = None
        target = self.replacement.call.target
        self.replacement.array._value = value_of(self._stored(target))
        target[...] = self.replacement.before
        del target  # whose references are counted
        self.replacement.check(event)

    def _stored(self, target: Any) -> Any:
        """What the array has after the store."""
        is_mark, numbers = _marks_in(target)
        target[is_mark] = 0
        stored = wrap(Value(target.copy(order="K"), CLOSED, (), NO_PARAMS))
        flat = [NUMPY[np.ravel](each).astype(target.dtype) for each in self.replacement.values]
        stored[is_mark] = NUMPY[np.concatenate](flat)[numbers - 1]
        return stored


class _StoreOfThread(threading.local):
    """The store that NumPy executes in this thread."""

    store: _MarkedStore | None = None


_running = _StoreOfThread()


_Holder = tuple[FrameType, str]


def _replacement(call: Call, frame: FrameType) -> _Replacement | None:
    """A replacement of the array that a frame's call writes into, if there can be one. NumPy's own
    code goes on with what it has."""
    if type(call.target) is not np.ndarray or is_internal(frame.f_code):
        return None
    reserved = _reserve(call.target)
    if reserved is None or not _is_suitable(call.target):
        return None
    holders = list(_holders(frame, call.target))
    if not holders and not _may_take_places():
        return None
    return _Replacement(call, frame, holders, reserved)


def _reserve(target: Any) -> Any:
    """A weak reference to an array, which keeps other threads from it; None if it has another."""
    reserved = weakref.ref(target, lambda _: None)  # with a function, it is one of its own
    return reserved if weakref.getweakrefcount(target) == 1 else None


def _may_take_places() -> bool:
    """Whether the end of a derivative puts back what is replaced. A trace has a record of its own
    of what is written where."""
    return is_deriving() and current_tracer() is None


def _is_suitable(target: Any) -> bool:
    return (
        target.base is None
        and target.flags.owndata
        and target.flags.writeable
        and target.dtype.kind in "fc"
        and target.dtype.isnative
        and target.real.itemsize in _BITS
        and not _marks_in(target)[0].any()
    )


def _holders(frame: FrameType | None, target: Any) -> Iterator[_Holder]:
    """The local variables that hold an array, of running functions of the user's, from a frame
    outwards. That of a closure is its owner's, who may have returned: then there is none."""
    while frame is not None and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no module
        if is_internal(frame.f_code):
            return
        names = [name for name, x in frame_locals(frame).items() if x is target]
        for name in set(names).difference(frame.f_code.co_freevars):
            yield frame, name
        frame = frame.f_back


_Reference = weakref.ref[Any]


def _operands_in(array: _Reference, values: Sequence[Tracked]) -> list[tuple[_Reference, int]]:
    """An array and its views, as far as they are operands in the history of tracked values, each
    with how many times."""
    found: dict[int, tuple[_Reference, int]] = {}
    for value in {each for x in values for each in history_of(value_of(x))}:
        for x in value.operands:
            if type(x) is np.ndarray and (x is array() or x.base is array()):
                operand, count = found.get(id(x), (weakref.ref(x), 0))
                found[id(x)] = operand, count + 1
    return list(found.values())


def _references(array: _Reference) -> int:
    return sys.getrefcount(array()) - _COUNTED_BESIDES


_probe = np.zeros(1)
_COUNTED_BESIDES = sys.getrefcount(weakref.ref(_probe)()) - 1


def _mark_bits(array: Any) -> tuple[Any, int]:
    return _BITS[array.real.itemsize]


def _marks_in(array: Any) -> tuple[Any, Any]:
    """Where an array has marks, and their numbers."""
    is_mark = np.array(np.isnan(array.real))
    mark, payload = _mark_bits(array)
    bits = array.real[is_mark].view(mark.dtype)
    numbers = np.where(bits & mark == mark, bits & mark.dtype.type(payload), 0)
    is_mark[is_mark] = numbers > 0
    return is_mark, numbers[numbers > 0].astype(np.intp)
