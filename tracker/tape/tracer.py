"""Traces: what a stage hears, and what those tell it who are about to depend on values.

Owns: `Stage`, which listens to the gate (`record.py`) while a function is traced; `Cut`, within
which what is computed is constant for every derivative; what the library tells a stage (`note_*`,
`close`). Start at `Stage`, then `note`, which the gate calls.

Invariant: a plain array that a trace meets is kept by reference, for the compiler to read afresh
on every call; what it held is kept beside it (`Stage.see`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.errors import (
    REFUSALS,
    ConversionError,
    TrackerError,
    UnsupportedError,
    message,
    user_frame,
    user_line,
)
from tracker.ir.op import Op
from tracker.ir.types import type_of
from tracker.support import errstate
from tracker.support.array_copies import own_copy, same_bytes
from tracker.tape.lazy import LARGE, Deferral
from tracker.tape.liveness import dead
from tracker.tape.observers import current_cut, current_stage, listeners, stages, thread
from tracker.tape.value import CLOSED, NO_PARAMS, Value, is_due, new_epoch

_ndarray = np.ndarray

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
    `spoilt`: why the trace cannot be used, if it cannot: what goes on is a plain run; `forgetful`:
    whether it has let go of the histories of its values since. `errors`:
    those raised because of values: who goes on after one has branched on values unheard.
    `lent`: arrays with a value's data that plain NumPy was given to read; `lenders`, by their ids:
    the handles whose memory they are in the plain function; `shared`: the values of these.
    `originals`: the caller's arrays, by the ids of the handles that stand for them;
    `apart_asked`: those handles of which the code asks whether they share memory with others,
    `flags_asked`: and of which it asks for flags, with a mask of these.
    `instances`: by id, the objects of the user's own classes that the trace has made: arguments
    with tracked values in them, and gradients.
    `deferral`: what is put off, if anything may be. `flags`: whether the code asks if something is
    True itself: then what Python makes of a comparison of its numbers is that, under a guard;
    `compares`: whether it asks if two things are one object.
    """

    def __init__(
        self,
        since: int = 0,
        deferral: Deferral | None = None,
        *,
        flags: bool = False,
        compares: bool = False,
    ) -> None:
        self.since = since
        self.flags = flags
        self.compares = compares
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
        self.forgetful = False
        self.errors: list[Exception] = []
        self.lent: list[np.ndarray[Any, Any]] = []
        self.lenders: dict[int, Any] = {}
        self.shared: set[Value] = set()
        self.originals: Mapping[int, Any] = {}
        self.apart_asked: set[int] = set()
        self.flags_asked: dict[int, int] = {}
        self.instances: dict[int, Any] = {}
        self.errstate: Any = None  # NumPy's settings when the last equation was noted
        self.where: tuple[Any, int, int] = (None, 0, 0)  # code, instruction, line of the last one

    @property
    def structured(self) -> bool:
        """Whether this is the trace of a body, which other values will go through."""
        return self.since > 0

    def __enter__(self) -> Stage:
        thread.__dict__.setdefault("stages", []).append(self)
        listeners.append(self)
        if self.deferral is not None:
            self.deferral.grow = self.grow
        return self

    def __exit__(self, *_: object) -> None:
        if self.deferral is not None:
            self.deferral.grow = None
        thread.stages.remove(self)
        listeners.remove(self)

    def spoil(self, why: str) -> None:
        """Say why the trace cannot be used; the first reason is the one."""
        self.spoilt = self.spoilt or why

    def postponing(self) -> Deferral | None:
        """What may put numbers off now, if anything may."""
        if self.deferral is None or thread.watch is not None or thread.cut is not None:
            return None
        self._look_at_errstate()
        return None if self.spoilt else self.deferral

    def hear(self, value: Value, depth: int) -> None:
        """Note an equation. A spoilt trace forgets it: it goes on as a plain run, and holds as
        little."""
        if self.spoilt and self._forgets(value):
            return
        self._look_at_errstate()
        for operand in value.operands:
            if type(operand) is _ndarray:
                self.see(operand)
        frame = user_frame(depth - 1)
        if frame is None:
            self.notes.append((value, None, 0))
        else:  # who pulls back through a function stays at one instruction: its line is looked up
            code, at = frame.f_code, frame.f_lasti
            if code is not self.where[0] or at != self.where[1]:
                self.where = code, at, frame.f_lineno
            self.notes.append((value, code, self.where[2]))
        form = value.form
        if type(form) is _ndarray and not is_due(value):
            self.grow(form.nbytes)

    def _forgets(self, value: Value) -> bool:
        """Whether nobody will pull back through a value, and so its history is gone. All that has
        been noted goes before, once: what is asked of a long chain would go through all of it."""
        if thread.deriving or self.structured or len(thread.stages) > 1:
            return False
        if not self.forgetful:
            self.forgetful = True
            self.notes = [note for note in self.notes if not self._forget(note[0])]
            self.guards.clear()
        return self._forget(value)

    def _forget(self, value: Value) -> bool:
        """Make a constant of a value, if it is made of constants and arguments; whether it is one
        now. One whose numbers are yet to be computed does not become one, nor what is made of a
        leaf of a derivative: that may have its backward pass still to come."""
        if value.op is None or is_due(value):
            return False
        for o in value.operands:
            if type(o) is Value and not self._is_past(o):
                return False
        value.op, value.operands, value.params = CLOSED, (), NO_PARAMS
        return True

    def _is_past(self, operand: Value) -> bool:
        """Whether nobody pulls back through an operand: a constant that is no leaf of a derivative,
        or what the function was given."""
        if operand.op is CLOSED:
            return id(operand) not in self.closed
        return operand in self.given or operand in self.placed

    def grow(self, nbytes: int) -> None:
        """The trace has computed so many bytes more."""
        self.fresh += nbytes
        if self.deferral is not None:
            self.deferral.spent += nbytes
        if self.fresh > self.allowance:
            self.let_go()

    def look_back(self) -> None:
        """The function has run: what is left to compute has the memory of what served it."""
        if self.deferral is not None and self.fresh > max(LARGE, _SCAN * len(self.notes)):
            self.let_go()

    def let_go(self) -> None:
        """Free the arrays that nobody can ask for any more."""
        deriving = thread.deriving
        if self.notes and not self.structured and len(thread.stages) == 1 and all(deriving):
            running = [leaf for leaves in deriving for leaf in leaves]
            found = set(dead(self.notes, self.given | self.placed, running, self.closed))
            for value in found - self._needed(found):
                value.data = type_of(value.form)  # nobody can ask for its numbers any more
            if self.deferral is not None:
                self.deferral.free([note[0] for note in self.notes])
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
        settings = errstate.VARIABLE.get()
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
        if not self.forgetful:
            self.guards.append((len(self.notes), value, kind, _where(4), expected))


class Unstructured(Exception):
    """A body that is traced once, for all steps of a loop, does what one trace cannot say."""


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
        self.outer, thread.cut = thread.cut, self
        listeners.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        thread.cut = self.outer
        listeners.remove(self)

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


def close(value: Value) -> None:
    """Make a leaf a constant for everyone but the pass that owns it."""
    if value.op is None:
        value.op = CLOSED
    stage = current_stage()
    if stage is not None:
        stage.closed[id(value)] = len(stage.notes)


def as_recorded(operand: Any, value: Value) -> Any:
    """A plain operand of a value, for rules: while staging it is kept by reference, and the code
    may have changed it since."""
    if listeners and type(operand) is _ndarray:
        for stage in stages():
            seen = stage.as_seen(operand, value)
            if seen is not operand:
                return seen
    return operand


def note(value: Value) -> None:
    watch = thread.watch
    if watch is not None:
        watch.made(value)
    cut = thread.cut
    if cut is not None:
        cut.make_constant(value)
        return
    stage = current_stage()
    if stage is not None:
        stage.hear(value, 4)


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


def note_failure(
    error: Exception, op: Op, data: Sequence[Any], params: dict[str, Any] = NO_PARAMS
) -> None:
    """An op has raised: because of the values that it met, if not because of their types."""
    caused = isinstance(error, (ArithmeticError, ValueError, LookupError))
    if caused and not isinstance(error, TrackerError) and current_stage() is not None:
        try:
            op.infer(*map(type_of, data), **params)
        except REFUSALS:
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


def _where(depth: int) -> tuple[Any, int]:
    frame = user_frame(depth)
    return (None, 0) if frame is None else (frame.f_code, frame.f_lineno)
