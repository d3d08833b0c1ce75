"""Recording: the one gate through which every op passes, and staging.

Owns: the gates `apply`, `apply1`, `apply2`; `Stage`, which listens to the gate while a
function is traced; `Cut`, within which what is computed is constant for every derivative; `Watch`,
which is told of everything. Start at `apply`. What passes the gate is a `Value` (`values.py`); in a
trace, its numbers may be put off (`deferral.py`).

There is no global tape. A value holds the values it was made from, so history lives exactly as
long as somebody can reach it. A leaf is a value whose `op` is None; when the derivative that made
the leaf has run the function, the leaf is closed (`op` becomes `CLOSED`) and is a constant for
everyone else.

Invariants
1. `Value.data` is always plain (a number or an array), whatever derivatives are being taken.
2. A value is never changed after it was made, but for `close`, and `back` using up its history; a
   write may reuse the array of a value that nobody else can read (`overwrite`).
3. A plain array on the tape is a private copy, so nobody can change it behind the tape's back;
   while staging it is kept by reference, for the compiler to read afresh on every call.
4. `epoch` never decreases: a value cannot depend on a leaf of a later epoch.
5. What the gate computes for nobody who listens costs nothing more than that.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracker.attribution import attributed
from tracker.deferral import Deferral
from tracker.errors import (
    ConversionError,
    TrackerError,
    UnsupportedError,
    message,
    user_frame,
    user_line,
)
from tracker.ir.op import LINEAR, Op
from tracker.ir.types import type_of
from tracker.liveness import dead
from tracker.snapshots import own_copy, same_bytes, snapshot
from tracker.standing import HANDLES, settled
from tracker.values import NO_PARAMS as NO_PARAMS
from tracker.values import Value as Value
from tracker.values import is_due
from tracker.values import new_epoch as new_epoch

_ndarray = np.ndarray
_new = object.__new__
_errstate: Any = np._core.umath._extobj_contextvar  # type: ignore[attr-defined]
_listeners = 0  # how many stages are listening, in all threads together


_handle: Any = object


def set_handle(cls: type) -> None:
    """Tell the tape which class its values wear towards users (`Tracked`; said once, at import)."""
    global _handle
    _handle = cls


def wrap(value: Value) -> Any:
    """A handle on a value."""
    handle: Any = _new(_handle)
    handle._value = value
    return handle


def value_of(handle: Any) -> Value:
    """The current value of a handle (a view is brought up to date first)."""
    value: Value = handle._value or handle._refresh()
    return value


def data_of(x: Any) -> Any:
    """The plain data of a handle; anything else as it is."""
    if HANDLES:
        x = settled(x)
    return value_of(x).data if type(x) is _handle else x


def is_put_off(x: Any) -> bool:
    """Whether a handle's numbers have yet to be computed."""
    return type(x) is _handle and is_due(value_of(x))


def form_of(x: Any) -> Any:
    """As `data_of`, for those who do not look at the numbers."""
    if HANDLES:
        x = settled(x)
    return value_of(x).form if type(x) is _handle else x


def apply1(op: Op, a: Any) -> Any:
    """Record `op(a)` for a tracked `a`: the fast way for an elementwise op without params."""
    if HANDLES and settled(a) is not a:
        return op.evaluate(settled(a))
    value = a._value or a._refresh()
    if _listeners:
        return _heard(op, (value,), NO_PARAMS)
    try:
        data = op.evaluate(value.data)
    except RuntimeWarning as warning:
        data = attributed(warning, op.evaluate, (value.data,), NO_PARAMS)
    made = Value(data, op, (value,), NO_PARAMS)
    handle: Any = _new(_handle)
    handle._value = made
    return handle


def apply2(op: Op, a: Any, b: Any) -> Any:
    """Record `op(a, b)`, at least one of them tracked: as `apply1`, for two operands."""
    if HANDLES:
        a, b = settled(a), settled(b)
        if type(a) is not _handle and type(b) is not _handle:
            return op.evaluate(a, b)
    if _listeners:
        taken = (_taken(a, op), _taken(b, op))
        return _heard(op, taken, NO_PARAMS)
    if type(a) is _handle:
        left = a._value or a._refresh()
        x = left.data
    else:
        left = x = _plain(a, op)
    if type(b) is _handle:
        right = b._value or b._refresh()
        y = right.data
    else:
        right = y = b if type(b) is float else _plain(b, op)
    try:
        data = op.evaluate(x, y)
    except RuntimeWarning as warning:
        data = attributed(warning, op.evaluate, (x, y), NO_PARAMS)
    made = Value(data, op, (left, right), NO_PARAMS)
    handle: Any = _new(_handle)
    handle._value = made
    return handle


def apply(op: Op, operands: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS) -> Any:
    """Evaluate `op`; record it where that can matter.

    Nothing is recorded, and the result is plain, when no operand is tracked, or when the op has no
    derivative and nobody is tracing.
    """
    if HANDLES:
        operands = tuple(map(settled, operands))
    taken: list[Any] = []
    data: list[Any] = []
    tracked = False
    if (
        _listeners
        and (not op.constant or current_stage() is not None)
        and any(type(operand) is _handle for operand in operands)
    ):
        return _heard(op, tuple([_taken(operand, op) for operand in operands]), params)
    for operand in operands:
        if type(operand) is _handle:
            value = operand._value or operand._refresh()
            taken.append(value)
            data.append(value.data)
            tracked = True
        else:
            taken.append(operand)
            data.append(operand)
    plain = op.constant or not tracked
    if not plain:
        for i, operand in enumerate(taken):
            if type(operand) is not Value:
                taken[i] = data[i] = _plain(operand, op)
    try:
        result = op.evaluate(*data, **params)
    except RuntimeWarning as warning:
        result = attributed(warning, op.evaluate, data, params)
    return result if plain else wrap(Value(result, op, tuple(taken), params))


def _taken(operand: Any, op: Op) -> Any:
    """What an equation takes of an operand: its value, or plain data."""
    return value_of(operand) if type(operand) is _handle else _plain(operand, op)


def _heard(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Record `op(*operands)` while somebody listens; a trace may put the numbers off."""
    stage = current_stage()
    made = None if stage is None else stage.postponed(op, operands, params)
    if made is None:
        data = [o.data if type(o) is Value else o for o in operands]
        try:
            result = op.evaluate(*data, **params)
        except RuntimeWarning as warning:
            result = attributed(warning, op.evaluate, data, params)
        except Exception as error:
            _note_failure(error, op, data, params)
            raise
        made = Value(result, op, operands, params)
    _note(made)
    return wrap(made)


def record(op: Op, operands: tuple[Any, ...], params: dict[str, Any], data: Any) -> Any:
    """Record that `op(*operands)` gave `data`, whether an operand is tracked or not."""
    if HANDLES:
        operands = tuple(map(settled, operands))
    taken = tuple(value_of(o) if type(o) is _handle else _plain(o, op) for o in operands)
    made = Value(data, op, taken, params)
    if _listeners:
        _note(made)
    return wrap(made)


# Writing in place -------------------------------------------------------------------------------


class InPlace(dict[str, Any]):
    """Params of a write that was made in its first operand's own array, which it overwrote in part.

    `holders`: how many values of history share the array. Each of them is an operand of the next
    and of nothing else, so that what the next write overwrote cannot be missed. Rules of such a
    write look at the operand's shape and dtype only.
    """

    __slots__ = ("holders",)

    def __init__(self, params: dict[str, Any], holders: int) -> None:
        super().__init__(params)
        self.holders = holders


def overwrite(op: Op, handle: Any, part: Any, index: Any) -> bool:
    """As `handle._value = op(handle, part)` for the op that is x[index] = part on a copy of x, but
    without the copy, where nobody else can see the array. False: somebody can; nothing was done."""
    if _listeners or not handle._value or part is handle:  # x[::-1] = x reads what it writes over
        return False
    params = handle._value.params
    holders = params.holders if type(params) is InPlace else 1
    if _references(handle) != (_alone[0], _alone[1] + holders - 1):
        return False
    value = handle._value
    if value.op is not op and not _is_read_in_place(value.op):
        return False
    array = value.data
    if type(array) is not _ndarray or array.base is not None or not array.flags.writeable:
        return False
    operand = value_of(part) if type(part) is _handle else _plain(part, op)
    array[index] = operand.data if type(operand) is Value else operand
    made = Value(array, op, (value, operand), InPlace({"index": index}, holders + 1))
    handle._value = made
    return True


def _is_read_in_place(op: Any) -> bool:
    """Whether the rules of what made a value look at the value's elements at most where they lie:
    no cotangent reaches one that was overwritten, and no tangent leaves it. The rule of an inverse,
    or of a maximum, needs all of them."""
    if not isinstance(op, Op):
        return op is None or op is CLOSED
    return op.partials is not None or op.jvp == LINEAR


def _references(handle: Any) -> tuple[int, int]:
    """How many references the value of a handle has, and the value's array."""
    value = handle._value
    array = value.data
    return sys.getrefcount(value), sys.getrefcount(array)


class _Probe:
    def __init__(self) -> None:
        self._value = Value(np.zeros(1), None, (), NO_PARAMS)


_alone = _references(_Probe())  # when the handle and its value are the only ones


# Plain operands ---------------------------------------------------------------------------------

_NUMBERS: tuple[Any, ...] = (int, float, complex)
_ARITHMETIC = ("__add__", "__radd__", "__mul__", "__rmul__")


def _plain(x: Any, op: Op) -> Any:
    """What the tape keeps of a plain operand."""
    cls = type(x)
    if cls is _ndarray:
        tracing = _listeners and current_stage() is not None
        return snapshot(x) if op.saves and not tracing else x
    if cls is int or cls is float or isinstance(x, np.generic) or cls is complex or cls is bool:
        return x
    for number in _NUMBERS:  # of a class of its own, as a member of an IntEnum is
        if isinstance(x, number) and all(
            getattr(cls, name) is getattr(number, name) for name in _ARITHMETIC
        ):
            return number(x)
    if isinstance(x, (list, tuple)):
        return np.asarray(x)
    if isinstance(x, np.memmap):
        return snapshot(np.asarray(x))
    raise UnsupportedError(
        message(
            f"{op.name} got a {cls.__name__} beside a tracked value",
            "Give np.asarray(x), if plain numbers are what is meant"
            if isinstance(x, np.ndarray)
            else "Give numbers or NumPy arrays",
        )
    )


# Leaves -----------------------------------------------------------------------------------------

CLOSED: Any = "closed"  # the op of a leaf whose derivative has finished running the function


def leaf(data: Any) -> Value:
    """A fresh leaf."""
    return Value(data, None, (), NO_PARAMS)


def close(value: Value) -> None:
    """Make a leaf a constant for everyone but the pass that owns it."""
    if value.op is None:
        value.op = CLOSED
    stage = current_stage() if _listeners else None
    if stage is not None:
        stage.closed[id(value)] = len(stage.notes)


def made_of(root: Value, known: Container[Value] = ()) -> Iterator[Value]:
    """A value and all that it was made of, each once; nothing beyond those that are `known`."""
    seen = {root}
    stack = [root]
    while stack:
        value = stack.pop()
        if value in known:
            continue
        yield value
        for operand in value.operands:
            if type(operand) is Value and operand not in seen:
                seen.add(operand)
                stack.append(operand)


_constants: weakref.WeakSet[Value] = weakref.WeakSet()  # found to be constant, and so for good


def is_constant(value: Value) -> bool:
    """Whether a value is made of nothing but arrays that were allocated to be filled: there is no
    gradient to lose."""
    for at in made_of(value, _constants):
        if at.op is not CLOSED and not any(type(o) is Value for o in at.operands):
            return False
    _constants.add(value)
    return True


# Staging ----------------------------------------------------------------------------------------

_ALLOWANCE = 1 << 24  # bytes of arrays that a trace may hold for nobody
_SCAN = 1 << 13  # bytes that are written in the time it takes to look at one note, and more


class Stage:
    """Listens to the gate in this thread, between `with` and its end.

    `notes`: the equations in order, each (value, code, line). `guards`: each (how many equations
    came before, value, kind, (code, line), what it is taken to be: None if that is known).
    `images`: what each plain operand held, and how many equations came before, when it was first
    seen and whenever it was seen changed. `aliases`: values that were not computed, but stand for
    others under another derivative.
    `since`, if it is not 0: the body of a loop or branch is being traced, and what is older than
    this epoch is outside of it. `inner`: what the traces of such bodies within this one made, which
    is nobody else's business. `apart`: arguments that a derivative found to be written into.
    `given` and `placed`: the leaves that stand for a traced function's arguments, and for the
    arrays it captured; `pinned`: values made of the latter that are guarded to be what they were.
    `closed`: by id, when leaves were closed, in equations. `fresh`: the bytes of arrays noted since
    those that were dead by then were let go (they leave their type), `allowance` how many may come.
    `spoilt`: why the trace cannot be used, if it cannot: what goes on is a plain run. `errors`:
    those raised because of values: who goes on after one has branched on values unheard.
    `lent`: arrays with a value's data that plain NumPy was given to read; `shared`: the values
    whose memory they are in the plain function.
    `deferral`: what is put off, if anything may be.
    """

    def __init__(self, since: int = 0, deferral: Deferral | None = None) -> None:
        self.since = since
        self.deferral = deferral
        self.apart: set[Value] = set()
        self.inner: set[Value] = set()
        self.notes: list[tuple[Value, Any, int]] = []
        self.guards: list[tuple[int, Value, str, tuple[Any, int], Any]] = []
        self.images: dict[int, list[tuple[int, Any]]] = {}
        self.aliases: dict[Value, Value] = {}
        self.given: frozenset[Value] = frozenset()
        self.placed: frozenset[Value] = frozenset()
        self.pinned: set[Value] = set()
        self.closed: dict[int, int] = {}
        self.fresh = 0
        self.allowance = _ALLOWANCE
        self.spoilt = ""
        self.errors: list[Exception] = []
        self.lent: list[np.ndarray[Any, Any]] = []
        self.shared: set[Value] = set()
        self.errstate: Any = None  # NumPy's settings when the last equation was noted

    @property
    def structured(self) -> bool:
        """Whether this is the trace of a body, which other values will go through."""
        return self.since > 0

    def __enter__(self) -> Stage:
        global _listeners
        _thread.__dict__.setdefault("stages", []).append(self)
        _listeners += 1
        if self.deferral is not None:
            self.deferral.grow = self.grow
        return self

    def __exit__(self, *_: object) -> None:
        global _listeners
        if self.deferral is not None:
            self.deferral.grow = None
        _thread.stages.remove(self)
        _listeners -= 1

    def postponed(self, op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Value | None:
        """The value of an equation whose numbers are put off; None if they are to be computed."""
        if self.deferral is None or _thread.watch is not None or _thread.cut is not None:
            return None
        self._look_at_errstate()
        if self.spoilt:
            return None
        return self.deferral.take(op, operands, params, self.see)

    def hear(self, value: Value, depth: int) -> None:
        """Note an equation."""
        self._look_at_errstate()
        for operand in value.operands:
            if type(operand) is _ndarray:
                self.see(operand)
        self.notes.append((value, *_where(depth)))
        if type(value.form) is _ndarray:
            self.grow(value.form.nbytes)

    def grow(self, nbytes: int) -> None:
        """The trace holds so many bytes more."""
        self.fresh += nbytes
        if self.fresh > self.allowance:
            self.let_go()

    def let_go(self) -> None:
        """Free the arrays that nobody can ask for any more."""
        deriving = _thread.deriving
        if self.notes and not self.structured and len(_thread.stages) == 1 and all(deriving):
            running = [leaf for leaves in deriving for leaf in leaves]
            found = set(dead(self.notes, self.given | self.placed, running, self.closed))
            for value in found - self._needed(found):
                value.form = type_of(value.form)
        self.fresh = 0
        self.allowance = max(_ALLOWANCE, _SCAN * len(self.notes))

    def _needed(self, dead: Container[Value]) -> set[Value]:
        """What the numbers that may still be asked for are to be computed of."""
        needed: set[Value] = set()
        if self.deferral is not None:
            for value, _, _ in reversed(self.notes):
                if is_due(value) and (value not in dead or value in needed):
                    needed.update(o for o in value.operands if type(o) is Value)
        return needed

    def _look_at_errstate(self) -> None:
        settings = _errstate.get()
        if settings is self.errstate:
            return
        self.errstate = settings
        if not self.spoilt and "raise" in np.geterr().values():
            self.spoilt = message(
                "np.errstate has floating-point errors raised, which compiled code does not do",
                "Ask for what matters (if np.any(x == 0)), or use errstate outside of jit",
                user_line(),
            )

    def see(self, array: Any) -> Any:
        """Remember what a plain operand holds now: a copy that nobody changes."""
        images = self.images.setdefault(id(array), [])
        if not images or not same_bytes(images[-1][1], array):
            images.append((len(self.notes), own_copy(array)))
        return images[-1][1]

    def as_seen(self, array: Any, value: Value) -> Any:
        """A plain operand as it was when the value was made: itself, if it has not changed."""
        images = self.images.get(id(array), [])
        if not images or (len(images) == 1 and same_bytes(images[0][1], array)):
            return array
        at = next((i for i, note in enumerate(self.notes) if note[0] is value), None)
        if at is None:
            return array  # another stage heard of the value
        return next(image for since, image in reversed(images) if since <= at)

    def guard(self, value: Value, kind: str, expected: Any = None) -> None:
        """Python is about to depend on `kind(value)`: what it is, or is taken to be."""
        self.guards.append((len(self.notes), value, kind, _where(4), expected))


class Unstructured(Exception):
    """A body that is traced once, for all steps of a loop, does what one trace cannot say."""


def most_likely(x: Any, answer: bool) -> bool:
    """What `bool(x)` is. A trace that has put the numbers off takes it to be `answer`, and sees to
    it that this is looked at before anybody gets numbers."""
    stage = current_stage()
    if stage is None or stage.deferral is None or not is_put_off(x):
        return bool(x)
    value = value_of(x)
    stage.guard(value, "bool", answer)
    stage.deferral.grant(value, answer)
    return answer


def note_apart(value: Value) -> None:
    """A derivative found that an argument is written into: what the trace has found holds only
    while that argument shares memory with no other."""
    stage = current_stage()
    if stage is not None:
        stage.apart.add(value)


def note_error(error: Exception) -> None:
    """Something has raised because of a value: if the function goes on, it has branched on it."""
    stage = current_stage()
    if stage is not None:
        stage.errors.append(error)


def _note_failure(
    error: Exception, op: Op, data: Sequence[Any], params: dict[str, Any] = NO_PARAMS
) -> None:
    """An op has raised: because of the values that it met, if not because of their types."""
    caused = isinstance(error, (ArithmeticError, ValueError, LookupError))
    if caused and not isinstance(error, TrackerError) and current_stage() is not None:
        try:
            op.infer(*map(type_of, data), **params)
        except Exception:
            return
        note_error(error)


def forgive(error: Exception) -> None:
    """What an op raised was for another way to compute the same, which goes on now."""
    stage = current_stage()
    if stage is not None and error in stage.errors:
        stage.errors.remove(error)


def note_write(old: Value) -> None:
    """A handle is about to move on from a value: not out of the body of a loop, nor of a cut."""
    stage = current_stage()
    if stage is not None and old.epoch < stage.since:
        raise Unstructured("the body writes into an array outside of it")
    if stage is not None and old in stage.shared:
        raise ConversionError(
            message(
                "a write into an array that np.asarray(x) or the like has made plain",
                "Write before that, or let np.array(x) make a copy",
                user_line(),
            )
        )
    if current_cut() is not None and old.op is not CLOSED:
        raise UnsupportedError(
            message(
                "a write inside ignore_derivatives or checkpoint, into a tracked value from "
                "outside, which would lose its gradient",
                "Write into a copy, or outside",
            )
        )


class Cut:
    """Within it, in this thread, what is computed is a constant for every derivative.

    `since`: the epoch in which it began. `taken`: the values from before it that could have a
    derivative and were used, in order.
    """

    def __init__(self) -> None:
        self.since = new_epoch()
        self.taken: dict[Value, None] = {}
        self.outer: Cut | None = None

    def __enter__(self) -> Cut:
        global _listeners
        self.outer, _thread.cut = _thread.cut, self
        _listeners += 1
        return self

    def __exit__(self, *_: object) -> None:
        global _listeners
        _thread.cut = self.outer
        _listeners -= 1

    def make_constant(self, value: Value) -> None:
        """Take the history of a value made within; a trace that is listening keeps it."""
        stage = current_stage()
        if stage is not None and value not in stage.aliases:
            if stage.structured:
                raise Unstructured("the body ignores derivatives")
            heard = Value(value.data, value.op, value.operands, value.params)
            stage.hear(heard, 5)
            stage.aliases[value] = heard
        stack = [o for o in value.operands if type(o) is Value]
        while stack:
            operand = stack.pop()
            if operand.epoch >= self.since:  # made within, by a derivative that was taken there
                stack.extend(o for o in operand.operands if type(o) is Value)
            elif operand.op is not CLOSED:
                self.taken[operand] = None
        value.op, value.operands, value.params = CLOSED, (), NO_PARAMS


class Watch:
    """Within it, in this thread, `made` is told of every value that is recorded, and `swept` of
    every backward pass; `passing`: how many such passes are under way."""

    passing = 0

    def __enter__(self) -> Watch:
        global _listeners
        self.outer, _thread.watch = _thread.watch, self
        _listeners += 1
        return self

    def __exit__(self, *_: object) -> None:
        global _listeners
        _thread.watch = self.outer
        _listeners -= 1

    def made(self, value: Value) -> None: ...

    def swept(self, visited: dict[Value, Any], leaves: Iterable[tuple[Value, Any]]) -> None:
        """`visited`: the cotangents of the values on the way, consumers first."""


class _Thread(threading.local):
    """What goes on in this thread: stages, the innermost cut and watch, and the leaves of each
    derivative that is running its function."""

    stages: list[Stage]
    cut: Cut | None = None
    watch: Watch | None = None

    def __init__(self) -> None:
        self.deriving: list[Sequence[Value]] = []


_thread = _Thread()


def current_stage() -> Stage | None:
    """The innermost stage of this thread."""
    if not _listeners:
        return None
    stack: list[Stage] = getattr(_thread, "stages", [])
    return stack[-1] if stack else None


def as_recorded(operand: Any, value: Value) -> Any:
    """A plain operand of a value, for rules: while staging it is kept by reference, and the code
    may have changed it since."""
    if _listeners and type(operand) is _ndarray:
        for stage in stages():
            seen = stage.as_seen(operand, value)
            if seen is not operand:
                return seen
    return operand


def stages() -> tuple[Stage, ...]:
    """The stages of this thread, innermost last."""
    return tuple(getattr(_thread, "stages", ())) if _listeners else ()


def current_cut() -> Cut | None:
    """The innermost cut of this thread."""
    return _thread.cut if _listeners else None


def current_watch() -> Watch | None:
    """The innermost watch of this thread."""
    return _thread.watch if _listeners else None


class Deriving:
    """While a derivative runs its function: a cut around it does not reach inside."""

    __slots__ = ("cut", "leaves")

    def __init__(self, leaves: Sequence[Value] = ()) -> None:
        self.leaves = leaves

    def __enter__(self) -> None:
        _thread.deriving.append(self.leaves)
        self.cut: Cut | None = None
        if _listeners:
            self.cut, _thread.cut = _thread.cut, None

    def __exit__(self, *_: object) -> None:
        _thread.deriving.pop()
        if self.cut is not None:
            _thread.cut = self.cut


def is_deriving() -> bool:
    """Whether a derivative is running its function in this thread."""
    return bool(_thread.deriving)


def running_leaves() -> set[Value]:
    """The leaves of all derivatives that are running their functions in this thread."""
    return {leaf for leaves in _thread.deriving for leaf in leaves}


def is_following() -> bool:
    """Whether a function is being differentiated or traced in this thread."""
    return bool(_thread.deriving) or current_stage() is not None


def stand_for(value: Value, original: Any) -> Any:
    """A handle on a value that was put on the tape beside the gate, and has the data of `original`
    (a handle or plain): traces see the original, derivatives the value."""
    stage = current_stage()
    if stage is not None:
        if stage.structured:  # what goes through the body's trace later would not see the rule
            raise Unstructured("the body has a derivative rule of its own")
        known = type(original) is _handle
        stage.aliases[value] = (
            value_of(original) if known else Value(original, CLOSED, (), NO_PARAMS)
        )
    cut = current_cut()
    if cut is not None:
        cut.make_constant(value)
    return wrap(value)


def is_recording() -> bool:
    """Whether ops without a derivative are recorded, too, because somebody is tracing."""
    return current_stage() is not None


def _note(value: Value) -> None:
    watch = _thread.watch
    if watch is not None:
        watch.made(value)
    cut = _thread.cut
    if cut is not None:
        cut.make_constant(value)
        return
    stage = current_stage()
    if stage is not None:
        stage.hear(value, 4)


def _where(depth: int) -> tuple[Any, int]:
    frame = user_frame(depth)
    return (None, 0) if frame is None else (frame.f_code, frame.f_lineno)
