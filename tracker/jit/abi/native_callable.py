"""Types whose instances are called in machine code, without a Python frame.

An instance has a vectorcall pointer (the first entry), a `__dict__`, weak references, the slow
callable, its `_EntryState`, the count of calls inside native code, and the address of its dispatch
table, if it has many entries. Garbage collection, method binding and the slow path are IR text in
`runtime/native_helpers.py`. Start at `new_callable`.

Invariants: the last candidate of every chain is the slow path; a retired entry is freed only when
no call is inside native code; types are final; the chain changes under the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from tracker.jit.abi import dispatch_table
from tracker.jit.abi.entry import GUARDS_FAIL_OFTEN, IS_CALLED_OFTEN
from tracker.jit.abi.loader import NativeEntry
from tracker.jit.llvm import lock
from tracker.jit.runtime import c_symbols
from tracker.jit.runtime.cpython_layout import (
    ACTIVE,
    CALL,
    DICT,
    KEEP,
    OBJECT_SIZE,
    SLOW,
    TABLE,
    WEAKREFS,
)

_FLAGS = (
    1 << 7  # DISALLOW_INSTANTIATION: instances come from `new_callable`
    | 1 << 11  # HAVE_VECTORCALL
    | 1 << 14  # HAVE_GC
    | 1 << 17  # METHOD_DESCRIPTOR: a method call makes no bound method
)
_SLOT_CALL, _SLOT_CLEAR, _SLOT_DEALLOC, _SLOT_DESCR_GET = 50, 51, 52, 54
_SLOT_TRAVERSE, _SLOT_MEMBERS, _SLOT_GETSET = 71, 72, 73
_T_PYSSIZET, _READONLY = 19, 1
_METH_FASTCALL_KEYWORDS = 0x80 | 0x02
_MAX_LINEAR_ENTRIES = 4  # with more entries, a table
_NATIVE_NAMES = {"__call__", "__get__", "__dict__", "__new__", "__init__", "__del__", "__slots__"}


def _struct(**fields: Any) -> Any:
    return type("struct", (ctypes.Structure,), {"_fields_": tuple(fields.items())})


_INT, _TEXT, _POINTER = ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
# CPython's PyType_Slot, PyType_Spec, PyMemberDef, PyGetSetDef and PyMethodDef.
_TypeSlot = _struct(slot=_INT, function=_POINTER)
_TypeSpec = _struct(name=_TEXT, basicsize=_INT, itemsize=_INT, flags=ctypes.c_uint, slots=_POINTER)
_MemberDef = _struct(name=_TEXT, type=_INT, offset=ctypes.c_ssize_t, flags=_INT, doc=_TEXT)
_GetSetDef = _struct(name=_TEXT, get=_POINTER, set=_POINTER, doc=_TEXT, closure=_POINTER)
_MethodDef = _struct(name=_TEXT, function=_POINTER, flags=_INT, doc=_TEXT)

_from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(
    ("PyType_FromSpec", ctypes.pythonapi)
)
_alloc = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)(
    ("PyType_GenericAlloc", ctypes.pythonapi)
)
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))
_incref = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
# CPython keeps pointers into these, and types made here are never freed.
_IMMORTAL: list[Any] = []


def make_type(name: str, namespace: Mapping[str, Any]) -> type:
    """A final class of native callables; `namespace` has its Python methods and properties.

    `name` is dotted, its first part the module. Instances come from `new_callable` only.
    """
    refused = _NATIVE_NAMES & set(namespace)
    if refused:
        raise ValueError(f"{', '.join(sorted(refused))} cannot be given: native code defines these")
    made: type = _from_spec(ctypes.addressof(_type_spec(name)))
    for key, value in namespace.items():
        setattr(made, key, value)
    return made


def _type_spec(name: str) -> Any:
    offsets = {"vectorcall": CALL, "dict": DICT, "weaklist": WEAKREFS}
    members = (_MemberDef * 4)(
        *(
            _MemberDef(f"__{key}offset__".encode(), _T_PYSSIZET, offset, _READONLY, None)
            for key, offset in offsets.items()
        )
    )
    get, set_ = (c_symbols.address_of(f"PyObject_Generic{verb}Dict") for verb in ("Get", "Set"))
    getset = (_GetSetDef * 2)(_GetSetDef(b"__dict__", get, set_, None, None))
    runtime = c_symbols.helper_module()
    functions = {
        _SLOT_CALL: c_symbols.address_of("PyVectorcall_Call"),
        _SLOT_CLEAR: runtime.address("clear"),
        _SLOT_DEALLOC: runtime.address("dealloc"),
        _SLOT_DESCR_GET: runtime.address("bind"),
        _SLOT_TRAVERSE: runtime.address("traverse"),
        _SLOT_MEMBERS: ctypes.addressof(members),
        _SLOT_GETSET: ctypes.addressof(getset),
    }
    slots = (_TypeSlot * (len(functions) + 1))(*(_TypeSlot(*item) for item in functions.items()))
    spec = _TypeSpec(name.encode(), OBJECT_SIZE, 0, _FLAGS, ctypes.addressof(slots))
    _IMMORTAL.append((spec, slots, members, getset))
    return spec


def new_callable(cls: type, slow: Callable[..., Any]) -> Any:
    """An instance with no entries: every call goes to `slow`."""
    made = _alloc(cls, 0)
    for offset, thing in ((SLOW, slow), (KEEP, _EntryState())):
        _incref(thing)
        _field(made, offset).value = id(thing)
    _field(made, CALL).value = c_symbols.helper_module().address("slow")
    return made


def push_entry(callable_: Any, entry: NativeEntry) -> None:
    """Put an entry in front of the others. An interrupted push is repaired by linking all entries
    again."""
    state = _entry_state(callable_)
    is_linked = any(each is entry for each in state.live)
    if entry.next and not is_linked:
        raise ValueError("this entry is in use: its code has one cell for the next entry")
    _free_retired(callable_)
    if not is_linked:
        state.live.append(entry)
    if is_linked or (
        len(state.live) > _MAX_LINEAR_ENTRIES and (state.table is None or not state.table.free)
    ):
        _relink(callable_)
    else:
        _link_entry(callable_, entry, state.table)


def _link_entry(
    callable_: Any, entry: NativeEntry, table: dispatch_table.DispatchTable | None
) -> None:
    """Link an entry in front: in its slot of the table, or at the head of the chain."""
    if table is not None and entry.key is not None:
        entry.next = table.insert(entry.key, entry.address)
        return
    call = _field(callable_, CALL)
    entry.next = call.value or 0
    call.value = entry.address


def call_once(
    entry: NativeEntry, slow: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call an entry that is in no callable yet; `slow` serves calls that it does not take."""
    alone = new_callable(_function_self_type(), slow)
    try:
        push_entry(alone, entry)
        return alone(*args, **kwargs)
    finally:
        entry.next = 0


def remove_all_entries(callable_: Any) -> None:
    """Remove all entries: calls go to the slow path again."""
    remove_entries(callable_, entries(callable_))


def remove_entries(callable_: Any, removed: Collection[NativeEntry]) -> None:
    """Remove some entries. A call inside one of them still finds the next."""
    state = _entry_state(callable_)
    ids = set(map(id, removed))
    state.retired += [entry for entry in state.live if id(entry) in ids]
    state.live[:] = [entry for entry in state.live if id(entry) not in ids]
    _relink(callable_)
    _free_retired(callable_)


def _move_to_end(callable_: Any, address: int) -> None:
    """Make an entry the last candidate."""
    state = _entry_state(callable_)
    matches = [entry for entry in state.live if entry.address == address]
    is_suspended = _field(callable_, CALL).value == c_symbols.helper_module().address("slow")
    if matches and len(state.live) > 1 and not is_suspended:
        state.live.remove(matches[0])
        state.live.insert(0, matches[0])
        _relink(callable_)


def _on_called_often(callable_: Any, address: int) -> None:
    for entry in _entry_state(callable_).live:
        if entry.address == address and entry.on_called_often is not None:
            entry.on_called_often()
            return


GUARDS_FAIL_OFTEN.act = _move_to_end
IS_CALLED_OFTEN.act = _on_called_often


def suspend(callable_: Any) -> bool:
    """Send every call to the slow path, until `resume`; returns whether machine code took any
    before."""
    call, slow = _field(callable_, CALL), c_symbols.helper_module().address("slow")
    taken = call.value != slow
    call.value = slow
    return taken


def resume(callable_: Any) -> None:
    """Undo `suspend`, including entries that another thread has pushed meanwhile."""
    _relink(callable_)


def _relink(callable_: Any) -> None:
    """Link the newest entry first, each older one next, then the slow path; of many entries, those
    with a hash go into a table. (An entry that was demoted counts as old.)"""
    state, slow = _entry_state(callable_), c_symbols.helper_module().address("slow")
    many = len(state.live) > _MAX_LINEAR_ENTRIES
    table = state.table = dispatch_table.DispatchTable(len(state.live), slow) if many else None
    _field(callable_, TABLE).value = table.address if table else None
    _field(callable_, CALL).value = dispatch_table.dispatch_address(slow) if table else slow
    for entry in state.live:
        _link_entry(callable_, entry, table)


def entries(callable_: Any) -> tuple[NativeEntry, ...]:
    """The entries in use, in the order in which they are tried."""
    return tuple(reversed(_entry_state(callable_).live))


@lock.locked_cache
def _function_self_type() -> type:
    return make_type("tracker.jit.native_function", {})


def make_builtin(entry: NativeEntry, name: str, slow: Callable[..., Any]) -> Any:
    """A built-in function over one entry; `slow` serves calls that the entry does not take."""
    state = new_callable(_function_self_type(), slow)
    push_entry(state, entry)
    definition = _MethodDef(name.encode(), entry.address, _METH_FASTCALL_KEYWORDS, None)
    state.definition = definition
    return _new_function(ctypes.addressof(definition), state, None)


class _EntryState:
    """The entries in use, the retired ones, and the dispatch table."""

    __slots__ = ("live", "retired", "table")

    def __init__(self) -> None:
        self.live: list[NativeEntry] = []
        self.retired: list[NativeEntry] = []
        self.table: dispatch_table.DispatchTable | None = None


def _entry_state(callable_: Any) -> _EntryState:
    state: Any = ctypes.py_object.from_address(id(callable_) + KEEP).value
    return cast(_EntryState, state)


def _free_retired(callable_: Any) -> None:
    """Free retired entries, unless a call may still be inside one."""
    if ctypes.c_ssize_t.from_address(id(callable_) + ACTIVE).value == 0:
        _entry_state(callable_).retired.clear()


def _field(callable_: Any, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(callable_) + offset)
