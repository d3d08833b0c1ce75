"""The IR text of a call entry: check arguments, allocate results, call the plan, build the result.

`entry_text` joins the parts that the other files of this folder write; `loader.py` binds the names
and loads the text. No ctypes, no llvmlite.

The text defines `@entry(self, args, nargsf, kwnames)`, a vectorcall function and METH_FASTCALL |
METH_KEYWORDS; `@entry.link`, the cell with the next entry's address; and `@entry.used`, the time of
the last call it took (`jit/runtime/lru_clock.py`). The caller's text defines `i64 @plan(ptr
%slots)`. Slots are 8 bytes: first each input leaf's (an array's data address, a number's bits;
integers widened to 64; complex numbers take two), then a data address for each capture, then each
output leaf's. The plan returns 0, > 0 when a guard fails and the next entry must be tried, < 0 when
it has set a Python exception.

Invariants: a miss leaves no trace, so the next entry sees the call unchanged; `self->active` counts
the calls inside the code, so that the code is not freed under them; where Python code may run, the
call owns every object that it still needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.jit.abi.array_writes import ArrayWriteEmitter
from tracker.jit.abi.call_checks import ArgumentChecks
from tracker.jit.abi.results import ResultBuilder
from tracker.jit.abi.state_writes import StateWriteEmitter
from tracker.jit.guards.signature import Outputs, Signature
from tracker.jit.runtime.cpython_layout import ACTIVE
from tracker.jit.runtime.entry_writer import EntryWriter, ObjectSymbols
from tracker.support.structs import record

MIN_WORK_WITHOUT_GIL = 50_000  # elements, and numbers of scratch


@record(frozen=True)
class PlanTraits:
    """What the entry must know about the plan. `releases_gil`: always release the GIL; otherwise
    that depends on `work`, in elements (0: never). `may_raise`: a function that the plan calls may
    set an exception. `has_guards`: the plan may find that its trace does not hold. `counts_calls`:
    after `CALLS_BEFORE_OPTIMISING` calls Python is told."""

    releases_gil: bool = False
    work: int = 0
    may_raise: bool = False
    has_guards: bool = False
    counts_calls: bool = False


DEFAULT_TRAITS = PlanTraits()


class _EntryEvent:
    """What an entry tells Python, by the callable that it is in and its own address;
    `native_callable.py` sets `act`."""

    act: Callable[[Any, int], None]

    def __call__(self, callable_: Any, address: int) -> None:
        self.act(callable_, address)


GUARDS_FAIL_OFTEN = _EntryEvent()
IS_CALLED_OFTEN = _EntryEvent()
_MAX_CONSECUTIVE_FAILURES = 32  # of an entry's guards, before the other entries are tried first
CALLS_BEFORE_OPTIMISING = 2  # besides the first call, which is traced: it will be called often


def entry_text(
    signature: Signature,
    outputs: Outputs,
    captures: Sequence[np.ndarray[Any, Any]],
    objects: ObjectSymbols,
    traits: PlanTraits,
) -> str:
    """The text of `@entry` and its globals, without the declarations of C functions."""
    w = EntryWriter(objects)
    inputs = ArgumentChecks(w, signature, outputs)
    _check_errstate(w)
    inputs.check_arguments()
    inputs.check_conditions(outputs.conditions)
    capture_slot = signature.offsets[-1]
    for at, array in enumerate(captures):
        inputs.check_capture(array, capture_slot + at)
    output_slot = capture_slot + len(captures)
    results = ResultBuilder(inputs, outputs, output_slot)
    writes = ArrayWriteEmitter(inputs, outputs, output_slot + outputs.offsets[-1])
    writes.check(captures)
    results.allocate()
    writes.allocate(results)
    _call_plan(w, traits)
    writes.copy_back()
    root = results.build()
    StateWriteEmitter(inputs, results).emit()
    _write_exits(w, root, traits)
    slots = max(1, output_slot + outputs.offsets[-1] + len(outputs.writes))
    body = "\n".join([*_prologue(w, slots), *w.lines])
    cells = ["@entry.link = global ptr null", "@entry.used = global i64 0"]
    cells += ["@errstate = external global i8", "@clock = external global i64"]
    parts = [objects.declarations(), *cells]
    if traits.has_guards:
        parts.append("@entry.failures = internal global i64 0")
    if traits.counts_calls:
        parts.append(f"@entry.uncounted = global i64 {CALLS_BEFORE_OPTIMISING}")
    parts.append(body)
    return "\n".join(parts) + "\n}\n"


def _prologue(w: EntryWriter, slots: int) -> list[str]:
    lines = [
        "define ptr @entry(ptr %self, ptr %args, i64 %nargsf, ptr %kwnames) nounwind {",
        f"  %slots = alloca [{slots} x i64], align 16",
    ]
    for name, count in (("held", w.held_count), ("made", w.made_count)):
        if count:
            lines.append(f"  %{name} = alloca [{count} x ptr], align 16")
            lines.append(f"  store [{count} x ptr] zeroinitializer, ptr %{name}")
    return [
        *lines,
        *w.allocas,
        f"  %active = getelementptr i8, ptr %self, i64 {ACTIVE}",
        "  %calls = load i64, ptr %active",
        "  %calls.in = add i64 %calls, 1",
        "  store i64 %calls.in, ptr %active",
    ]


def _check_errstate(w: EntryWriter) -> None:
    """Machine code reports no floating-point errors: where NumPy is told to report them, the plain
    function runs. Asking takes 3 ns; reading the processor's flags instead would take 6, and
    `vmath` does not set them all. What the variable caches says nothing: it is the last value read
    or set in any context."""
    w.check(w.let("call i1 @native.unreported(ptr @errstate)"))


def _call_plan(w: EntryWriter, traits: PlanTraits) -> None:
    """Call the plan. Whether it has work enough to release the GIL depends on sizes, which another
    shape finds in its table."""
    call = f"%{'plan' if traits.may_raise else 'status'} = call i64 @plan(ptr %slots) alwaysinline"
    if traits.releases_gil:
        thread = w.let("call ptr @PyEval_SaveThread()")
        w.emit(call)
        w.emit(f"call void @PyEval_RestoreThread(ptr {thread})")
    elif traits.work:
        cell = w.alloca("ptr")
        w.store("ptr", "null", cell, 0)
        with w.unless(w.let(f"icmp ule i64 {traits.work}, {MIN_WORK_WITHOUT_GIL}")):
            w.store("ptr", w.let("call ptr @PyEval_SaveThread()"), cell, 0)
        w.emit(call)
        # volatile, so that LLVM does not duplicate the plan for the two cases
        thread = w.let(f"load volatile ptr, ptr {cell}")
        with w.unless(w.let(f"icmp eq ptr {thread}, null")):
            w.emit(f"call void @PyEval_RestoreThread(ptr {thread})")
    else:
        w.emit(call)
    if traits.may_raise:
        w.emit("%error = call ptr @PyErr_Occurred()")
        w.emit("%fine = icmp eq ptr %error, null")
        w.emit("%status = select i1 %fine, i64 %plan, i64 -1")
    w.check(w.equal("i64", "%status", 0), "guard")


def _write_exits(w: EntryWriter, root: str, traits: PlanTraits) -> None:
    """The four exits: a result, a failed guard, a miss, an exception."""
    for at in range(w.held_count):
        w.decref(w.load("ptr", "%held", 8 * at))
    if traits.counts_calls:
        _count_call(w, root)
    _decrement_active(w)
    w.emit(f"store i64 {w.let('load i64, ptr @clock')}, ptr @entry.used")
    if traits.has_guards:
        w.emit("store i64 0, ptr @entry.failures")
    w.emit(f"ret ptr {root}")
    w.label("guard")
    w.branch(w.let("icmp slt i64 %status, 0"), "fail", "refuse")
    w.label("refuse")
    _release_references(w, "made", w.made_count)
    if traits.has_guards:
        _count_failure(w)
    else:
        w.emit("br label %miss")
    w.label("miss")
    _call_next_entry(w)
    w.label("fail")
    _release_references(w, "made", w.made_count)
    _release_references(w, "held", w.held_count)
    _decrement_active(w)
    w.emit("ret ptr null")


def _count_call(w: EntryWriter, result: str) -> None:
    """Count a call down to zero."""
    left = w.let(f"sub i64 {w.let('load i64, ptr @entry.uncounted')}, 1")
    w.emit(f"store i64 {left}, ptr @entry.uncounted")
    with w.unless(w.let(f"icmp ne i64 {left}, 0")):
        _tell(w, IS_CALLED_OFTEN, lambda: w.decref(result))


def _tell(w: EntryWriter, event: _EntryEvent, release: Callable[[], None]) -> None:
    """Tell Python; if a signal handler raises an exception there, release what the call holds, and
    end it."""
    event_name = w.objects.name(event)
    fine = w.let(f"call i1 @native.tell(ptr {event_name}, ptr %self, ptr @entry)")
    after, raised = w.new_label(), w.new_label()
    w.branch(fine, after, raised)
    w.label(raised)
    release()
    _decrement_active(w)
    w.emit("ret ptr null")
    w.label(after)


def _count_failure(w: EntryWriter) -> None:
    """Count a failed guard; after many in a row, the entries are put in another order. This call
    continues in the old order."""
    count = w.let("load i64, ptr @entry.failures")
    more = w.let(f"add i64 {count}, 1")
    w.emit(f"store i64 {more}, ptr @entry.failures")
    w.branch(w.equal("i64", more, _MAX_CONSECUTIVE_FAILURES), "often", "miss")
    w.label("often")
    follower = w.let("load ptr, ptr @entry.link")
    _tell(w, GUARDS_FAIL_OFTEN, lambda: _release_references(w, "held", w.held_count))
    _call_next_entry(w, follower)


def _call_next_entry(w: EntryWriter, follower: str = "") -> None:
    """Pass the call to the next entry."""
    _release_references(w, "held", w.held_count)
    _decrement_active(w)
    follower = follower or w.let("load ptr, ptr @entry.link")
    arguments = "ptr %self, ptr %args, i64 %nargsf, ptr %kwnames"
    w.emit(f"ret ptr {w.let(f'musttail call ptr {follower}({arguments})')}")


def _release_references(w: EntryWriter, name: str, count: int) -> None:
    if count:
        w.emit(f"call void @native.release(ptr %{name}, i64 {count})")


def _decrement_active(w: EntryWriter) -> None:
    count = w.let("load i64, ptr %active")
    w.emit(f"store i64 {w.let(f'sub i64 {count}, 1')}, ptr %active")
