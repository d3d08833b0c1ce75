"""Call entries in memory: verify struct layouts, bind names to addresses, compile and load.

Start at `prepare_entry` (the text and its symbols), then `compile_entry`.

Invariants: the layouts that texts rely on are compared with live objects when this file is
imported; an entry keeps alive every object that its code names, except weakly held ones, whose
cells are cleared when the objects die.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracker.errors import CompileError
from tracker.jit.abi import dispatch_table
from tracker.jit.abi.entry import DEFAULT_TRAITS, PlanTraits, entry_text
from tracker.jit.guards.class_guard import has_reliable_version_tags
from tracker.jit.guards.constants import NUMPY_SCALARS, ConstantKey
from tracker.jit.guards.signature import Outputs, Signature
from tracker.jit.llvm import engine, object_cache, size_parameters
from tracker.jit.runtime import cpython_layout, entry_writer, ufunc_loops
from tracker.jit.runtime.c_symbols import (
    C_FUNCTION,
    NUMPY_API_INDEX,
    address_of,
    numpy_api,
    scalar_allocator,
)
from tracker.jit.runtime.lru_clock import CLOCK
from tracker.support import errstate
from tracker.support.array_copies import data_address
from tracker.support.structs import record

_DECLARED_NAME = re.compile(r"\n(?:declare|define) [^@\n]*@(Py\w+)\(")
_CALL = re.compile(rf"call (\w+) {C_FUNCTION.pattern}([^()\n]*)\)")
_COLD = {f"native.{name}" for name in ("dtype", "equal", "release", "tell", "unreported")}
_MAX_FIELD_OFFSET = 1024  # bytes; every field that texts read is nearer


class NativeEntry:
    """A compiled call entry, in a module that was compiled or loaded with the prepared symbols. It
    can be linked into one callable (`native_callable.push_entry`).

    `on_called_often` is called, by an entry that counts its calls, when their number is reached.
    """

    on_called_often: Callable[[], None] | None = None

    def __init__(self, prepared: PreparedModule, module: engine.Module) -> None:
        self.module = module
        self.kept_alive = prepared.kept_alive
        self.key = prepared.key
        self.address = module.address("entry")
        self._link = ctypes.c_void_p.from_address(module.address("entry.link"))
        self._last_used = ctypes.c_int64.from_address(module.address("entry.used"))

    @property
    def last_used(self) -> int:
        """When the entry last took a call (`jit/runtime/lru_clock.py`); 0 if never."""
        return self._last_used.value

    @property
    def next(self) -> int:
        """The address of the next candidate; 0 until the entry is pushed."""
        return self._link.value or 0

    @next.setter
    def next(self, address: int) -> None:
        self._link.value = address

    def count_again(self, calls: int) -> None:
        """Call `on_called_often` after so many more calls."""
        ctypes.c_int64.from_address(self.module.address("entry.uncounted")).value = calls


@record(frozen=True)
class PreparedModule:
    """A module's text, the addresses of its external names, the objects behind them, and its
    entry's hash."""

    text: str
    symbols: dict[str, int]
    kept_alive: tuple[Any, ...]
    key: int | None = None

    def compile(self, level: int) -> engine.Module:
        return object_cache.compile_or_load(self.text, level=level, symbols=self.symbols)


def compile_entry(prepared: PreparedModule, level: int = engine.OPTIMISED) -> NativeEntry:
    """A native entry."""
    return NativeEntry(prepared, prepared.compile(level))


def prepare_module(
    plan: str, body: str, symbols: Mapping[str, int], kept_alive: Sequence[Any]
) -> PreparedModule:
    """The text of a plan and of what calls it, and the symbols of both."""
    text, tables = lift_to_buffers(f"{_declarations(plan, body)}\n{body}\n{plan}")
    bound = {**symbols, **buffer_addresses(tables)}
    bound.update((name, address_of(name)) for name in set(C_FUNCTION.findall(text)))
    return PreparedModule(text, bound, (*kept_alive, *tables.values()))


def array_address(array: Any) -> int:
    """The address of an `ndarray`'s first element, read where `verify_layout` finds it: a tenth of
    the time that its array interface takes."""
    address: int = ctypes.c_size_t.from_address(id(array) + cpython_layout.DATA).value
    return address


_FRAME_FUNCTION = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


def frame_function(address: int) -> Callable[[int], int]:
    """The function there, of a frame's address. It raises what the code has set."""
    return _FRAME_FUNCTION(address)


def prepare_entry(
    plan: str,
    signature: Signature,
    outputs: Outputs,
    captures: Sequence[np.ndarray[Any, Any]] = (),
    *,
    symbols: Mapping[str, int] | None = None,
    kept_alive: Sequence[Any] = (),
    traits: PlanTraits = DEFAULT_TRAITS,
) -> PreparedModule:
    """An entry around `plan`, IR text that defines `internal i64 @plan(ptr)`: its complete text
    (equal for equal calls in any process: a cache key) and its symbols.

    `kept_alive` are the objects behind the addresses in `symbols`.
    """
    objects = entry_writer.ObjectSymbols()
    body = entry_text(signature, outputs, captures, objects, traits)
    prepared = prepare_module(plan, body, symbols or {}, kept_alive)
    bound = prepared.symbols
    bound["errstate"] = id(errstate.VARIABLE)
    cells = [_weak_cell(static) for static in objects.weakly_held]
    bound.update((f"obj.{n}", id(thing)) for n, thing in enumerate(objects.kept_alive))
    bound.update((f"cell.{n}", ctypes.addressof(cell)) for n, (cell, _) in enumerate(cells))
    tags = [check.tag for check in objects.class_checks]
    bound.update((f"tag.{n}", ctypes.addressof(tag)) for n, tag in enumerate(tags))
    versions = make_buffer(bytes(8 * objects.dict_versions))
    first = data_address(versions)
    bound.update((f"version.{n}", first + 8 * n) for n in range(objects.dict_versions))
    bound.update((f"alloc.{n}", scalar_allocator(cls)) for n, cls in enumerate(objects.allocators))
    makers = [address_of(entry_writer.ARRAY_CONSTRUCTORS[kind]) for kind in objects.constructors]
    bound.update((f"maker.{n}", address) for n, address in enumerate(makers))
    bound["clock"] = CLOCK.address
    keep = (*prepared.kept_alive, *objects.kept_alive, *cells, versions)
    return PreparedModule(prepared.text, bound, keep, dispatch_table.signature_hash(signature))


def lift_to_buffers(text: str) -> tuple[str, dict[str, Any]]:
    """The text without sizes (`jit/llvm/size_parameters.py`), and its tables in memory."""
    text, tables = size_parameters.lift_sizes(text)
    return text, {name: make_buffer(table) for name, table in tables.items()}


def make_buffer(data: bytes) -> Any:
    """Memory with these bytes. (A ctypes array would need a class for its length, which is a
    cycle.)"""
    return np.frombuffer(bytearray(data), np.uint8)


def buffer_addresses(buffers: Mapping[str, Any]) -> dict[str, int]:
    """The addresses of a text's tables."""
    return {name: data_address(buffer) for name, buffer in buffers.items()}


def _declarations(plan: str, body: str) -> str:
    """The C functions that an entry calls, unless its plan declares them."""
    known, lines = set(_DECLARED_NAME.findall(f"\n{plan}")), set()
    for kind, name, arguments in _CALL.findall(body):
        if name not in known:
            types = ", ".join(argument.partition(" ")[0] for argument in arguments.split(", "))
            lines.add(f"declare {kind} @{name}({types}){' cold' if name in _COLD else ''}")
    return "\n".join(sorted(lines))


def _weak_cell(static: ConstantKey) -> tuple[ctypes.c_void_p, Any]:
    """A cell with the object's address, and the weak reference that clears it. If the object died
    during compilation, the cell is clear and the entry takes no call."""
    thing = static.value
    if thing is None:
        return ctypes.c_void_p(0), None
    cell = ctypes.c_void_p(id(thing))
    zero = map(ctypes.memset, [ctypes.byref(cell)], [0], [ctypes.sizeof(cell)])
    # runs no Python code: see support/weakrefs.py
    return cell, weakref.ref(thing, functools.partial(next, zero))


class _Ufunc(ctypes.Structure):
    """The start of NumPy's `PyUFuncObject`, part of its C ABI."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.c_size_t),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


_NULL_DATA = ctypes.c_void_p()  # the data argument of ufuncs without data


def loop_symbols(loops: Iterable[ufunc_loops.UfuncLoop]) -> dict[str, int]:
    """The addresses of ufuncs' inner loops, and of the cells with their data pointers."""
    found: dict[str, int] = {}
    for loop in loops:
        ufunc, fields = loop.ufunc, _Ufunc.from_address(id(loop.ufunc))
        facts = (fields.nin, fields.nout, fields.nargs, fields.ntypes)
        claimed = (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes)
        is_known = facts == claimed and fields.name == ufunc.__name__.encode()
        function = fields.functions[loop.index] if is_known else None
        if not function:
            raise CompileError(f"NumPy {np.__version__} lays out {ufunc} in an unknown way")
        found[loop.symbol] = function
        own = fields.data + loop.index * ctypes.sizeof(ctypes.c_void_p) if fields.data else 0
        found[f"{loop.symbol}.data"] = own or ctypes.addressof(_NULL_DATA)
    return found


def verify_layout() -> None:
    """Compare every offset that texts use with live objects."""
    table = numpy_api()
    wrong = [what for what, right in _layout_checks() if not right]
    wrong += [name for name, number in NUMPY_API_INDEX.items() if table[number] == 0]
    if wrong:
        what = (
            f"Python {sys.version.split()[0]} with NumPy {np.__version__} lays out "
            f"{', '.join(wrong)} in a way that native calls do not know"
        )
        raise CompileError(what, "Upgrade tracker, or use an older Python or NumPy", "")


def _layout_checks() -> list[tuple[str, bool]]:
    w = cpython_layout
    one, pair, listed, keyed = 1.5, (1.5, 2.5), [1.5, 2.5, 3.5], {"a": 1, "b": 2}
    array = np.zeros((2, 3), np.float32)
    checks = [
        ("object", object.__basicsize__ == w.SIZE),
        ("type", _read_field(ctypes.c_size_t, one, w.TYPE) == id(float)),
        ("class", _read_field(ctypes.c_ulong, NativeEntry, w.TYPE_FLAGS) == NativeEntry.__flags__),
        ("float", _read_field(ctypes.c_double, one, w.VALUE) == one),
        ("complex", _read_field(ctypes.c_double, 1 + 2j, w.VALUE + 8) == 2.0),
        ("tuple size", _read_field(ctypes.c_ssize_t, pair, w.SIZE) == 2),
        ("tuple items", _read_field(ctypes.c_size_t, pair, w.ITEMS + 8) == id(pair[1])),
        ("list size", _read_field(ctypes.c_ssize_t, listed, w.SIZE) == 3),
        ("list items", _read_array_field(listed, w.ITEMS, 3)[2:] == [id(listed[2])]),
        ("dict", _read_field(ctypes.c_ssize_t, keyed, w.SIZE) == 2),
        ("dict version", _are_dict_versions_right() or not w.HAS_DICT_VERSIONS),
        ("cell", _read_field(ctypes.c_size_t, types.CellType(pair), w.CELL_CONTENTS) == id(pair)),
        *_function_checks(),
        ("class version", has_reliable_version_tags()),
        ("array data", _read_field(ctypes.c_size_t, array, w.DATA) == array.ctypes.data),
        ("array rank", _read_field(ctypes.c_int, array, w.NDIM) == 2),
        ("array shape", _read_array_field(array, w.DIMS, 2) == [2, 3]),
        ("array strides", _read_array_field(array, w.STRIDES, 2) == [12, 4]),
        ("array dtype", _read_field(ctypes.c_size_t, array, w.DESCR) == id(array.dtype)),
        ("array flags", _read_field(ctypes.c_int, array, w.FLAGS) == array.flags.num),
        ("floating-point settings", _is_errstate_layout_right()),
        *_dtype_checks(np.dtype(np.float32)),
        *_dtype_checks(np.dtype(">i8")),
        *_dtype_checks(np.dtype(np.complex128)),  # its size is not its alignment
    ]
    return checks + [_scalar_check(cls, dtype) for cls, dtype in NUMPY_SCALARS.items()]


def _function_checks() -> list[tuple[str, bool]]:
    def probe(x: Any = None, *, y: Any = None) -> None:
        pass

    return [
        (f"function {name}", _read_field(ctypes.c_size_t, probe, at) == id(getattr(probe, name)))
        for name, at in cpython_layout.FUNCTION_FIELDS.items()
    ]


def _are_dict_versions_right() -> bool:
    """Whether each change of a dict gives it a new version; also one that an attribute's assignment
    makes, by instructions that the interpreter has specialised after some rounds."""
    probe = type("Probe", (), {})()
    held, seen = vars(probe), [0]
    for k in range(1, _DICT_CHANGES):
        probe.a = k
        seen.append(_read_field(ctypes.c_uint64, held, cpython_layout.DICT_VERSION))
        held["a"] = -k
        seen.append(_read_field(ctypes.c_uint64, held, cpython_layout.DICT_VERSION))
    return len(set(seen)) == len(seen)


_DICT_CHANGES = 24


def _is_errstate_layout_right() -> bool:
    """Whether NumPy's error settings are where `native.unreported` reads them."""
    modes = ("ignore", "warn", "raise", "call")
    seen = []
    for at in range(len(modes)):
        kinds = dict(
            zip(("divide", "over", "under", "invalid"), modes[at:] + modes[:at], strict=True)
        )
        with np.errstate(**kinds):  # type: ignore[arg-type]
            words = _read_array_field(errstate.VARIABLE.get(), cpython_layout.CAPSULE_POINTER, 1)
            seen.append([word & 0xFFFFFFFF for word in words])
    return seen == [[sum((at + k) % 4 << 3 * k for k in range(4))] for at in range(4)]


def _dtype_checks(dtype: np.dtype[Any]) -> list[tuple[str, bool]]:
    w = cpython_layout
    return [
        ("dtype kind", _read_field(ctypes.c_char, dtype, w.KIND) == dtype.kind.encode()),
        (
            "dtype byte order",
            _read_field(ctypes.c_char, dtype, w.BYTEORDER) == dtype.byteorder.encode(),
        ),
        ("dtype number", _read_field(ctypes.c_int, dtype, w.TYPE_NUMBER) == dtype.num),
        ("dtype size", _read_field(ctypes.c_ssize_t, dtype, w.ITEMSIZE) == dtype.itemsize),
    ]


def _scalar_check(cls: type, dtype: np.dtype[Any]) -> tuple[str, bool]:
    """Whether a NumPy scalar's bytes are where the text reads them."""
    value = np.array([3 + 5j if dtype.kind == "c" else 1], dtype)
    scalar = value[0]
    raw = _bytes_after_head(scalar, cpython_layout.VALUE, dtype.itemsize)
    return cls.__name__, type(scalar) is cls and raw == value.tobytes()


def _read_field(kind: Any, thing: Any, offset: int) -> Any:
    data = _bytes_after_head(thing, offset, ctypes.sizeof(kind))
    return kind.from_buffer_copy(data).value if data else None


def _bytes_after_head(thing: Any, offset: int, size: int) -> bytes:
    """Bytes at an offset in an object; nothing if the offset is implausible."""
    return ctypes.string_at(id(thing) + offset, size) if 0 <= offset < _MAX_FIELD_OFFSET else b""


def _read_array_field(thing: Any, offset: int, count: int) -> list[int]:
    """The first words that a pointer field points to; none if it is no pointer."""
    words = (ctypes.c_size_t * count)()
    address = _read_field(ctypes.c_size_t, thing, offset)
    data = _read_memory(address, ctypes.sizeof(words)) if address else b""
    return [*type(words).from_buffer_copy(data)] if len(data) == ctypes.sizeof(words) else []


def _read_memory(address: int, size: int) -> bytes:
    """Bytes at an address that may be invalid: the system then refuses to copy them to a pipe."""
    if os.name == "nt":
        return ctypes.string_at(address, size)
    reading, writing = os.pipe()
    write = ctypes.CDLL(None).write
    write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    write.restype = ctypes.c_ssize_t
    try:
        taken = write(writing, address, size)
        return os.read(reading, size) if taken > 0 else b""
    finally:
        os.close(reading)
        os.close(writing)


verify_layout()
