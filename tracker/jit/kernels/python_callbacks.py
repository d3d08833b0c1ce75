"""Callbacks: machine code that calls Python (random generators, users' rules) and continues.

`plan_callback` plans a `Callback` step, `why_no_callback` says which host calls cannot be one;
`call_table` describes a call for the runtime function `tk.callback`. What a program does before and
after its host calls stays one native call, without Python in the path of its arguments.

Operands are copied, because a function may keep them, and results are copied into the plan's
buffers. So only small values go this way; the executor calls NumPy with large ones
(`jit/pipeline/executor.py`).

Invariants: callbacks with effects keep their order, and run after all guards that precede them in
the function; draws are rolled back when a later guard fails, because another trace draws these
numbers again. A result of another dtype or shape fails like a guard.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.ir.graph import Eqn
from tracker.ir.lowering import Host
from tracker.ir.op import has_effect
from tracker.ir.types import Bundle, Type
from tracker.jit.abi import loader
from tracker.jit.codegen import journal_code
from tracker.jit.guards.signature import NATIVE_DTYPES
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.lock import locked_cache
from tracker.jit.runtime import c_symbols
from tracker.jit.runtime.cpython_layout import (
    ALIGNED,
    CONTIGUOUS,
    DATA,
    DESCR,
    DIMS,
    NDIM,
    TYPE_NUMBER,
)
from tracker.jit.schedule.steps import result_buffer
from tracker.random.draw_ops import RollbackLog
from tracker.support.structs import record
from tracker.tape.observers import CallbackMismatch

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

CALL = "tk.callback"
_DECLARED = {
    f"declare i64 @{CALL}(ptr, ptr, ptr)",
    f"declare ptr @{journal_code.OPEN}(ptr)",
    f"declare void @{journal_code.CLOSE}(ptr, ptr, i64)",
    "@callback.begin = external global i8",
    "@callback.finish = external global i8",
}
_MAX_BYTES = 1 << 16  # bytes of all values; copying more costs as much as the executor


def why_no_callback(eqn: Eqn) -> str:
    """Why a host call cannot be a callback; empty if it can."""
    if not isinstance(eqn.op.lower, Host) or isinstance(eqn.out.type, Bundle):
        return "it gives several results"
    types = [eqn.out.type, *(o.type for o in eqn.operands)]
    if any(type.dtype not in NATIVE_DTYPES for type in types):
        return "a dtype that machine code has no numbers for"
    return "its values are large" if sum(type.nbytes for type in types) > _MAX_BYTES else ""


# The plan ----------------------------------------------------------------------------------------


@record(eq=False)
class Callback:
    """out = the result of a Python function of the operands."""

    eqn: Eqn

    @property
    def why(self) -> str:
        assert isinstance(self.eqn.op.lower, Host)
        return self.eqn.op.lower.why

    def emit(self, driver: Driver) -> None:
        """Call it."""
        eqn, effect = self.eqn, has_effect(self.eqn.op)
        driver.settle()
        if effect:
            driver.begin_effects()
        number = len(driver.needs.callbacks)
        driver.needs.callbacks.append(eqn)
        table = f"@callback.{number}"
        driver.needs.intrinsics |= {*_DECLARED, f"{table} = external global i8"}
        operands = f"%given{number}"
        driver.spills.append(f"  {operands} = alloca [{max(len(eqn.operands), 1)} x ptr]")
        for at, operand in enumerate(eqn.operands):
            cell = driver.e.write(f"getelementptr ptr, ptr {operands}, i64 {at}")
            driver.lines.append(f"  store ptr {driver.readable(operand)}, ptr {cell}")
        target = driver.pointer(result_buffer(driver, eqn))
        status = driver.e.write(f"call i64 @{CALL}(ptr {table}, ptr {operands}, ptr {target})")
        driver.check_status(status, can_fail=not effect)


def plan_callback(planner: Planner, eqn: Eqn) -> None:
    """Have the operands in C order, run after all preceding guards, and allocate the result."""
    level = max(planner.guard_level, planner.contiguous_level(eqn.operands))
    if has_effect(eqn.op):
        level = planner.effect_level = max(level, planner.effect_level)
    planner.allocate(eqn.out, level + 1)
    planner.add_write(Callback(eqn), level)


# Addresses for the text ---------------------------------------------------------------------------

_ARRAY, _FLOAT, _INT, _BOOL, _COMPLEX, _SCALAR = range(6)
_WEAK = {"f": _FLOAT, "i": _INT, "b": _BOOL, "c": _COMPLEX}
_RESULT_FLAGS = CONTIGUOUS | ALIGNED  # what NumPy must guarantee of a result
_MISMATCH = "a host call with an effect gave another dtype or shape than before\\00"
_HEADER_WORDS, _RECORD_WORDS = 3, 5  # words of a table's head, and of the record of a value


def bound_callbacks(eqns: Sequence[Eqn]) -> tuple[dict[str, int], list[Any]]:
    """The addresses of the names in the texts of callbacks, and the objects to keep alive."""
    addresses = {
        name: _runtime().address(name) for name in (CALL, journal_code.OPEN, journal_code.CLOSE)
    }
    addresses.update({"callback.begin": id(_open_journal), "callback.finish": id(_close_journal)})
    keep: list[Any] = []
    for number, eqn in enumerate(eqns):
        table, things = call_table(eqn)
        buffer = loader.make_buffer(table)
        addresses.update(loader.buffer_addresses({f"callback.{number}": buffer}))
        keep += [buffer, *things]
    return addresses, keep


def call_table(eqn: Eqn) -> tuple[bytes, list[Any]]:
    """The description of a host call for `tk.callback`, as words, and the objects to keep alive.

    Head: the function, the number of operands, whether a result of another type is an error. Then
    for the result and each operand: its kind, dtype, rank, offset of its extents in the table,
    bytes.
    """
    call = host_function(eqn)
    call = call if has_effect(eqn.op) else _none_if_rejected(call)
    types = [eqn.out.type, *(o.type for o in eqn.operands)]
    at = 8 * (_HEADER_WORDS + _RECORD_WORDS * len(types))
    words, extents = [id(call), len(types) - 1, int(has_effect(eqn.op))], list[int]()
    things: list[Any] = [call]
    for type in types:
        dtype = np.dtype(type.dtype.type)
        words += [_kind(type), id(dtype), type.ndim, at + 8 * len(extents), type.nbytes]
        extents += type.shape
        things.append(dtype)
    return struct.pack(f"{len(words) + len(extents)}q", *words, *extents), things


def host_function(eqn: Eqn) -> Callable[..., Any]:
    """The function of the operands that evaluates an equation."""
    lower = eqn.op.lower
    if isinstance(lower, Host) and lower.prepare is not None:
        return lower.prepare(**eqn.params)
    return functools.partial(eqn.op.evaluate, **eqn.params)


def _none_if_rejected(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives None, which has no dtype, where `call` raises `CallbackMismatch`."""

    def answer(*operands: Any) -> Any:
        try:
            return call(*operands)
        except CallbackMismatch:
            return None

    return answer


def _kind(type: Type) -> int:
    if type.shape:
        return _ARRAY
    return _WEAK[type.dtype.kind] if type.weak else _SCALAR


def _open_journal() -> RollbackLog:
    journal = RollbackLog()
    journal.__enter__()
    return journal


def _close_journal(journal: RollbackLog, fails: bool) -> None:
    journal.__exit__()
    if fails:
        journal.roll_back()


@locked_cache
def _runtime() -> engine.Module:
    names = c_symbols.C_FUNCTION.findall(_TEXT)
    addresses = {name: c_symbols.address_of(name) for name in set(names)}
    addresses.update((str(x), id(x)) for x in (True, False))
    addresses["RuntimeError"] = id(RuntimeError)
    return object_cache.compile_or_load(_TEXT, level=engine.FAST_CODEGEN, symbols=addresses)


def _word(name: str, base: str, at: int | str) -> str:
    return f"""  %{name}.cell = getelementptr i64, ptr {base}, i64 {at}
  %{name} = load i64, ptr %{name}.cell"""


def _pointer(name: str, base: str, at: int | str) -> str:
    return _word(name, base, at).replace("load i64", "load ptr")


_TEXT = f"""
@RuntimeError = external global i8
@True = external global i8
@False = external global i8
@differs.text = internal constant [{len(_MISMATCH) - 2} x i8] c"{_MISMATCH}"
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @native.release(ptr, i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare ptr @PyArray_Empty(i32, ptr, ptr, i32)
declare ptr @PyArray_FromAny(ptr, ptr, i32, i32, i32, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A value for Python, a new reference: a number, or an array with a copy of what is there.
define internal ptr @value(ptr %table, ptr %record, ptr %data) nounwind {{
{_word("kind", "%record", 0)}
{_pointer("descr", "%record", 1)}
  switch i64 %kind, label %array [
    i64 {_FLOAT}, label %float
    i64 {_INT}, label %int
    i64 {_BOOL}, label %bool
    i64 {_COMPLEX}, label %complex
    i64 {_SCALAR}, label %scalar
  ]
float:
  %x = load double, ptr %data
  %made.float = call ptr @PyFloat_FromDouble(double %x)
  ret ptr %made.float
int:
  %n = load i64, ptr %data
  %made.int = call ptr @PyLong_FromLongLong(i64 %n)
  ret ptr %made.int
bool:
  %byte = load i8, ptr %data
  %wide = zext i8 %byte to i64
  %made.bool = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %made.bool
complex:
  %im.cell = getelementptr double, ptr %data, i64 1
  %re = load double, ptr %data
  %im = load double, ptr %im.cell
  %made.complex = call ptr @PyComplex_FromDoubles(double %re, double %im)
  ret ptr %made.complex
scalar:
  %made.scalar = call ptr @PyArray_Scalar(ptr %data, ptr %descr, ptr null)
  ret ptr %made.scalar
array:
{_word("rank", "%record", 2)}
{_word("at", "%record", 3)}
{_word("size", "%record", 4)}
  %dims = getelementptr i8, ptr %table, i64 %at
  %rank.c = trunc i64 %rank to i32
  call void @Py_IncRef(ptr %descr)
  %made.array = call ptr @PyArray_Empty(i32 %rank.c, ptr %dims, ptr %descr, i32 0)
  %none = icmp eq ptr %made.array, null
  br i1 %none, label %done, label %copy
copy:
  %to.cell = getelementptr i8, ptr %made.array, i64 {DATA}
  %to = load ptr, ptr %to.cell
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %size, i1 false)
  br label %done
done:
  ret ptr %made.array
}}

; Whether an array has the dtype and the extents of a record.
define internal i1 @fits(ptr %array, ptr %table, ptr %record) nounwind {{
{_pointer("descr", "%record", 1)}
  %number.cell = getelementptr i8, ptr %descr, i64 {TYPE_NUMBER}
  %number = load i32, ptr %number.cell
  %descr.cell.a = getelementptr i8, ptr %array, i64 {DESCR}
  %descr.a = load ptr, ptr %descr.cell.a
  %number.cell.a = getelementptr i8, ptr %descr.a, i64 {TYPE_NUMBER}
  %number.a = load i32, ptr %number.cell.a
  %same.dtype = icmp eq i32 %number.a, %number
{_word("rank", "%record", 2)}
{_word("at", "%record", 3)}
  %wanted = getelementptr i8, ptr %table, i64 %at
  %rank.cell.a = getelementptr i8, ptr %array, i64 {NDIM}
  %rank.a = load i32, ptr %rank.cell.a
  %rank.wide = sext i32 %rank.a to i64
  %dims.cell = getelementptr i8, ptr %array, i64 {DIMS}
  %dims = load ptr, ptr %dims.cell
  %same.rank = icmp eq i64 %rank.wide, %rank
  %same = and i1 %same.rank, %same.dtype
  br i1 %same, label %loop, label %no
loop:
  %i = phi i64 [0, %0], [%next, %look]
  %more = icmp ult i64 %i, %rank
  br i1 %more, label %look, label %yes
look:
{_word("n", "%dims", "%i")}
{_word("m", "%wanted", "%i")}
  %next = add i64 %i, 1
  %is = icmp eq i64 %n, %m
  br i1 %is, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

; Call a function with what is in memory, and put what it gives where it goes. 0; 1 if that is not
; of the type that it was; -1 with an exception set.
define i64 @{CALL}(ptr %table, ptr %data, ptr %out) nounwind {{
{_pointer("function", "%table", 0)}
{_word("count", "%table", 1)}
{_word("strict", "%table", 2)}
  %result = getelementptr i64, ptr %table, i64 {_HEADER_WORDS}
  %state = call i32 @PyGILState_Ensure()
  %args = alloca ptr, i64 %count
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %put]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %take, label %ask
take:
  %next = add i64 %i, 1
  %words = mul i64 %next, {_RECORD_WORDS}
  %record = getelementptr i64, ptr %result, i64 %words
{_pointer("from", "%data", "%i")}
  %x = call ptr @value(ptr %table, ptr %record, ptr %from)
  %missing = icmp eq ptr %x, null
  br i1 %missing, label %drop, label %put
drop:
  call void @native.release(ptr %args, i64 %i)
  br label %raised
put:
  %to.cell = getelementptr ptr, ptr %args, i64 %i
  store ptr %x, ptr %to.cell
  br label %loop
ask:
  %y = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr null)
  call void @native.release(ptr %args, i64 %count)
  %none = icmp eq ptr %y, null
  br i1 %none, label %raised, label %convert
convert:
{_word("size", "%result", 4)}
  %z = call ptr @PyArray_FromAny(ptr %y, ptr null, i32 0, i32 0, i32 {_RESULT_FLAGS}, ptr null)
  call void @Py_DecRef(ptr %y)
  %not.one = icmp eq ptr %z, null
  br i1 %not.one, label %raised, label %look
look:
  %alike = call i1 @fits(ptr %z, ptr %table, ptr %result)
  br i1 %alike, label %copy, label %differs
copy:
  %z.cell = getelementptr i8, ptr %z, i64 {DATA}
  %found = load ptr, ptr %z.cell
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %found, i64 %size, i1 false)
  call void @Py_DecRef(ptr %z)
  call void @PyGILState_Release(i32 %state)
  ret i64 0
differs:
  call void @Py_DecRef(ptr %z)
  %must = icmp ne i64 %strict, 0
  br i1 %must, label %refuse, label %forgive
forgive:
  call void @PyGILState_Release(i32 %state)
  ret i64 1
refuse:
  call void @PyErr_SetString(ptr @RuntimeError, ptr @differs.text)
  br label %raised
raised:
  call void @PyGILState_Release(i32 %state)
  ret i64 -1
}}

; Ask for a journal of what is drawn; null with an exception set.
define ptr @{journal_code.OPEN}(ptr %function) nounwind {{
  %state = call i32 @PyGILState_Ensure()
  %journal = call ptr @PyObject_Vectorcall(ptr %function, ptr null, i64 0, ptr null)
  call void @PyGILState_Release(i32 %state)
  ret ptr %journal
}}

; Close it, if there is one; an exception stays set.
define void @{journal_code.CLOSE}(ptr %function, ptr %cell, i64 %fails) nounwind {{
  %journal = load ptr, ptr %cell
  %none = icmp eq ptr %journal, null
  br i1 %none, label %done, label %close
close:
  %state = call i32 @PyGILState_Ensure()
  %error = alloca [3 x ptr]
  %kind = getelementptr ptr, ptr %error, i64 0
  %value = getelementptr ptr, ptr %error, i64 1
  %trace = getelementptr ptr, ptr %error, i64 2
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  %args = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %args, i64 1
  %back = icmp ne i64 %fails, 0
  %answer = select i1 %back, ptr @True, ptr @False
  store ptr %journal, ptr %args
  store ptr %answer, ptr %second
  %r = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 2, ptr null)
  call void @Py_DecRef(ptr %r)
  call void @Py_DecRef(ptr %journal)
  %kind.x = load ptr, ptr %kind
  %held = icmp ne ptr %kind.x, null
  br i1 %held, label %restore, label %leave
restore:
  %value.x = load ptr, ptr %value
  %trace.x = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %kind.x, ptr %value.x, ptr %trace.x)
  br label %leave
leave:
  call void @PyGILState_Release(i32 %state)
  br label %done
done:
  ret void
}}
"""
