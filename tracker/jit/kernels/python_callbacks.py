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

from tracker.errors import RuleError
from tracker.ir.graph import Eqn
from tracker.ir.lowering import Host
from tracker.ir.op import has_effect
from tracker.ir.types import Bundle, Type
from tracker.jit.abi import loader
from tracker.jit.codegen import prologue
from tracker.jit.guards.signature import NATIVE_DTYPES
from tracker.jit.llvm import engine, object_cache
from tracker.jit.llvm.function_writer import FunctionWriter, c_function, functions_text
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
from tracker.random.draw_ops import RollbackLog, draw
from tracker.support.structs import record
from tracker.tape.observers import CALL_FAILURES

if TYPE_CHECKING:
    from tracker.jit.schedule.plan import Planner
    from tracker.jit.schedule.steps import Driver

CALL = "tk.callback"
_DECLARED = {
    f"declare i64 @{CALL}(ptr, ptr, ptr)",
    f"declare ptr @{prologue.OPEN}(ptr)",
    f"declare void @{prologue.CLOSE}(ptr, ptr, i64)",
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
        begun = len(driver.lines)
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
        driver.check_status(status, can_fail=_can_fail(eqn))
        if eqn.op is draw:
            driver.end_draw(begun)


def _can_fail(eqn: Eqn) -> bool:
    """Whether the call may raise, or give a result of another type, in which case the call of the
    program is undone. (A draw with constant parameters does not.)"""
    return bool(eqn.operands) if eqn.op is draw else not has_effect(eqn.op)


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
    addresses = {name: _runtime().address(name) for name in (CALL, prologue.OPEN, prologue.CLOSE)}
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
    call, can_fail = host_function(eqn), _can_fail(eqn)
    call = _none_if_it_fails(call) if can_fail else call
    types = [eqn.out.type, *(o.type for o in eqn.operands)]
    at = 8 * (_HEADER_WORDS + _RECORD_WORDS * len(types))
    words, extents = [id(call), len(types) - 1, int(not can_fail)], list[int]()
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


def _none_if_it_fails(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives None, which has no dtype, where `call` raises."""

    def answer(*operands: Any) -> Any:
        try:
            return call(*operands)
        except RuleError:  # which the plain function would not raise
            raise
        except CALL_FAILURES:
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
    functions = (_value_text(), _fits_text(), _call_text(), _open_text(), _close_text())
    text = functions_text(functions, _OBJECTS)
    names = c_symbols.C_FUNCTION.findall(text)
    addresses = {name: c_symbols.address_of(name) for name in set(names)}
    addresses.update((str(x), id(x)) for x in (True, False))
    addresses["RuntimeError"] = id(RuntimeError)
    return object_cache.compile_or_load(text, level=engine.QUICK, symbols=addresses)


_OBJECTS = f"""
@RuntimeError = external global i8
@True = external global i8
@False = external global i8
@differs.text = internal constant [{len(_MISMATCH) - 2} x i8] c"{_MISMATCH}"
"""
_NUMBERS = {  # the type of a number in memory, and what makes an object of it
    _FLOAT: ("double", "PyFloat_FromDouble"),
    _INT: ("i64", "PyLong_FromLongLong"),
    _BOOL: ("i8", "PyBool_FromLong"),
}


@c_function("value", "ptr %table, ptr %record, ptr %data", "ptr", "internal ")
def _value_text(c: FunctionWriter) -> str:
    """A value for Python, a new reference: a number, or an array with a copy of what is there."""
    kind, dtype = c.load("%record"), c.load("%record", 1, "ptr")
    for number, (type, maker) in _NUMBERS.items():
        with c.when(c.compare("eq", kind, number)):
            x = c.load("%data", kind=type)
            if number == _BOOL:
                type, x = "i64", c.let(f"zext i8 {x} to i64")
            c.leave(c.call("ptr", maker, [f"{type} {x}"]))
    with c.when(c.compare("eq", kind, _COMPLEX)):
        parts = [f"double {c.load('%data', at, 'double')}" for at in (0, 1)]
        c.leave(c.call("ptr", "PyComplex_FromDoubles", parts))
    with c.when(c.compare("eq", kind, _SCALAR)):
        c.leave(c.call("ptr", "PyArray_Scalar", ["ptr %data", f"ptr {dtype}", "ptr null"]))
    rank, at, size = (c.load("%record", word) for word in (2, 3, 4))
    c.call("void", "Py_IncRef", [f"ptr {dtype}"])
    dims = c.address("%table", at, "i8")
    arguments = [f"i32 {c.let(f'trunc i64 {rank} to i32')}", f"ptr {dims}", f"ptr {dtype}", "i32 0"]
    array = c.call("ptr", "PyArray_Empty", arguments)
    with c.when(c.logical_not(c.is_null(array))):
        c.copy_bytes(c.field(array, DATA), "%data", size)
    return array


@c_function("fits", "ptr %array, ptr %table, ptr %record", "i1", "internal ")
def _fits_text(c: FunctionWriter) -> str:
    """Whether an array has the dtype and the extents of a record."""
    numbers = [
        c.field(dtype, TYPE_NUMBER, "i32")
        for dtype in (c.load("%record", 1, "ptr"), c.field("%array", DESCR))
    ]
    c.return_if(c.let(f"icmp ne i32 {', '.join(numbers)}"), "false")
    rank, wanted = c.load("%record", 2), c.address("%table", c.load("%record", 3), "i8")
    own = c.let(f"sext i32 {c.field('%array', NDIM, 'i32')} to i64")
    c.return_if(c.compare("ne", own, rank), "false")
    dims = c.field("%array", DIMS)
    with c.loop(0, rank) as i:
        c.return_if(c.compare("ne", c.load(dims, i), c.load(wanted, i)), "false")
    return "true"


@c_function(CALL, "ptr %table, ptr %data, ptr %out", "i64")
def _call_text(c: FunctionWriter) -> int:
    """Call a function with what is in memory, and put what it gives where it goes. 0; 1 if that is
    not of the type that it was; -1 with an exception set."""
    function, count, strict = (
        c.load("%table", at, kind) for at, kind in enumerate(("ptr", "", ""))
    )
    result = c.address("%table", _HEADER_WORDS)
    state = c.call("i32", "PyGILState_Ensure", [])
    args = c.let(f"alloca ptr, i64 {count}")

    def give_up(status: int) -> None:
        c.call("void", "PyGILState_Release", [f"i32 {state}"])
        c.leave(status)

    with c.loop(0, count) as i:
        record = c.address(result, c.mul(c.add(i, 1), _RECORD_WORDS))
        given = f"ptr %table, ptr {record}, ptr {c.load('%data', i, 'ptr')}"
        x = c.let(f"call ptr @value({given})")
        with c.when(c.is_null(x)):
            c.call("void", "native.release", [f"ptr {args}", f"i64 {i}"])
            give_up(-1)
        c.store(x, args, i, "ptr")
    called = [f"ptr {function}", f"ptr {args}", f"i64 {count}", "ptr null"]
    y = c.call("ptr", "PyObject_Vectorcall", called)
    c.call("void", "native.release", [f"ptr {args}", f"i64 {count}"])
    with c.when(c.is_null(y)):
        give_up(-1)
    how = ["ptr null", "i32 0", "i32 0", f"i32 {_RESULT_FLAGS}", "ptr null"]
    z = c.call("ptr", "PyArray_FromAny", [f"ptr {y}", *how])
    c.call("void", "Py_DecRef", [f"ptr {y}"])
    with c.when(c.is_null(z)):
        give_up(-1)
    with c.when(c.let(f"call i1 @fits(ptr {z}, ptr %table, ptr {result})")):
        c.copy_bytes("%out", c.field(z, DATA), c.load(result, 4))
        c.call("void", "Py_DecRef", [f"ptr {z}"])
        give_up(0)
    c.call("void", "Py_DecRef", [f"ptr {z}"])
    with c.when(c.compare("ne", strict, 0)):
        c.call("void", "PyErr_SetString", ["ptr @RuntimeError", "ptr @differs.text"])
        give_up(-1)
    give_up(1)
    return 1


@c_function(prologue.OPEN, "ptr %function", "ptr")
def _open_text(c: FunctionWriter) -> str:
    """Ask for a journal of what is drawn; null with an exception set."""
    state = c.call("i32", "PyGILState_Ensure", [])
    arguments = ["ptr %function", "ptr null", "i64 0", "ptr null"]
    journal = c.call("ptr", "PyObject_Vectorcall", arguments)
    c.call("void", "PyGILState_Release", [f"i32 {state}"])
    return journal


@c_function(prologue.CLOSE, "ptr %function, ptr %cell, i64 %fails", "void")
def _close_text(c: FunctionWriter) -> None:
    """Close it, if there is one; an exception stays set."""
    journal = c.load("%cell", kind="ptr")
    c.return_if(c.is_null(journal), "")
    state = c.call("i32", "PyGILState_Ensure", [])
    error = [f"ptr {c.array('ptr')}" for _ in range(3)]
    c.call("void", "PyErr_Fetch", error)
    fails = c.let(f"select i1 {c.compare('ne', '%fails', 0)}, ptr @True, ptr @False")
    args = c.cells_of("ptr", [journal, fails])
    arguments = ["ptr %function", f"ptr {args}", "i64 2", "ptr null"]
    answer = c.call("ptr", "PyObject_Vectorcall", arguments)
    for thing in (answer, journal):
        c.call("void", "Py_DecRef", [f"ptr {thing}"])
    held = [f"ptr {c.load(cell.split()[1], kind='ptr')}" for cell in error]
    with c.when(c.let(f"icmp ne {held[0]}, null")):
        c.call("void", "PyErr_Restore", held)
    c.call("void", "PyGILState_Release", [f"i32 {state}"])
