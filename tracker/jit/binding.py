"""From a program's text to machine code that can be called.

Owns: `Piece`, a native entry with the program that it runs; `bind`, which makes one; `Compiled`,
what became of a whole trace. A text is compiled, or its object code found (`cache.py`); the names
in it are bound to addresses here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tracker.config import current, dump
from tracker.ir.graph import Atom, Function
from tracker.jit import blas, engine, memory, native, parallel, pausing, rare, relinking, signature
from tracker.jit.entry import Running
from tracker.jit.layout import Plan
from tracker.jit.lowered import CALLS, Lowered
from tracker.jit.program import Program
from tracker.jit.signature import ArrayOut, OutLeaf, Outputs, ScalarOut, Signature
from tracker.jit.strides import MemoryOrder, c_strides
from tracker.records import field, record

if TYPE_CHECKING:
    from tracker.jit.partition import HostCall

_RAW = {"tk.take": "PyMem_RawMalloc", "tk.give": "PyMem_RawFree"}  # needs no lock of Python's
_FAILS = "\n  ret i64 1\n"  # in the text of a plan that may find that its trace does not hold
_FEW = 10  # a number of two digits is one that the text does not show (`lifting.py`)


@record()
class Piece:
    """A native entry."""

    program: Program
    modules: tuple[Any, ...]
    entry: Any
    scratch: int

    @property
    def plan(self) -> Plan:
        return self.program.plan


@record()
class Compiled:
    """What compiling a trace gave. `entry` is the native entry of a program that is lowered whole,
    else `run` executes its stages; `seconds` are those of each step."""

    program: Program
    pieces: list[Piece]
    hosts: list[HostCall]
    entry: Any = None
    run: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def function(self) -> Function:
        """The function that is run, after all passes."""
        return self.program.function


def bind(
    program: Program,
    lowered: Lowered,
    call: Signature,
    outputs: Outputs,
    captures: Sequence[Any] = (),
) -> Piece:
    """Machine code for a call of this signature."""
    loans = native.loop_symbols(lowered.borrowed)
    symbols = {**loans, **_addresses(lowered)}
    modules: list[engine.Module] = []
    keep: list[Any] = []
    for each in lowered.loops:
        addresses, linked, needed = relinking.link(each, loans)
        symbols.update(addresses)
        modules += linked
        keep += [*linked, *needed]
    if lowered.callbacks:
        addresses, needed = rare.bound_callbacks(lowered.callbacks)
        symbols.update(addresses)
        keep += needed
    size = sum(v.type.size for v in program.traced.inputs) + lowered.scratch // 8
    pauses = pausing.NAME in lowered.symbols
    entry = native.compile_entry(
        lowered.text,
        call,
        outputs,
        captures,
        symbols=symbols,
        keep=keep,
        running=Running(
            unlocked=pauses,
            work=max(size, _FEW) if CALLS.search(lowered.text) else 0,
            raises=pauses or bool(lowered.borrowed or lowered.callbacks),
            guarded=_FAILS in lowered.text,
        ),
        level=lowered.level,
    )
    for module in (entry.module, *modules):
        for stage in current().dump & {"llvm", "asm"}:
            dump(stage, functools.partial(getattr, module, stage))
    program.forget()
    return Piece(program, (entry.module, *modules), entry, lowered.scratch)


def _addresses(lowered: Lowered) -> dict[str, int]:
    """Those of the functions that the text calls besides its own and the processor's."""
    symbols: dict[str, int] = {}
    library = blas.find() if lowered.symbols else None
    for name in lowered.symbols:
        if library is not None and name in library.symbols:
            symbols[name] = library.symbols[name]
        elif name in memory.NAMES:
            symbols[name] = _memory_of(name, lowered.scratch)
        elif name == parallel.NAME:
            symbols.update(parallel.symbols())
        elif name == pausing.NAME:
            symbols.update(pausing.symbols())
        else:
            symbols[name] = rare.routine_address(name)
    return symbols


def _memory_of(name: str, size: int) -> int:
    """The function that takes scratch of this size, or gives it back."""
    if size >= memory.LEAST:
        return memory.symbols()[name]
    return native.address_of(_RAW[name])


# How things lie --------------------------------------------------------------------------------


def strides_of(array: Any) -> tuple[int, ...]:
    """Those of an array, or of the leaf that stands for one, in elements; a number has none."""
    if isinstance(array, signature.Scalar):
        return ()
    if array.strides is None:
        return c_strides(array.shape)
    return tuple(stride // array.dtype.itemsize for stride in array.strides)


def array_out(atom: Atom, order: MemoryOrder) -> ArrayOut:
    type = atom.type
    strides = None if order is None else tuple(step * type.dtype.itemsize for step in order)
    return ArrayOut(type.dtype, type.shape, strides)


def out_leaf(kind: str, atom: Atom, order: MemoryOrder = None) -> OutLeaf:
    type = atom.type
    if kind == "array":
        return array_out(atom, order)
    if kind == "python":
        return ScalarOut({"f": float, "i": int, "c": complex, "b": bool}[type.dtype.kind])
    return ScalarOut(type.dtype.type)
