"""Linking: from the text of a program to callable machine code.

A text is compiled, or its object code found (`jit/llvm/object_cache.py`); names in it are bound to
addresses. `bind` makes a `LinkedProgram`; a `CompiledTrace` is the result for a whole trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracker.config import current, dump
from tracker.ir.graph import Function
from tracker.jit.abi import loader
from tracker.jit.abi.entry import MIN_WORK_WITHOUT_GIL, PlanTraits
from tracker.jit.abi.frame_call import FrameCall
from tracker.jit.codegen.artifact import BODY, CALL_PATTERN, LAPS, LoweredProgram
from tracker.jit.guards.signature import (
    ArrayLeaf,
    ArrayOut,
    Outputs,
    ScalarLeaf,
    ScalarOut,
    Signature,
)
from tracker.jit.llvm import engine, object_cache, perf_map
from tracker.jit.pipeline.program import Program
from tracker.jit.runtime import allocator, blas, c_symbols, interrupt_checks, thread_pool
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.schedule.plan_data import Plan
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.pipeline.partition import HostCall

_bound_callbacks = lazy_import("tracker.jit.kernels.python_callbacks", "bound_callbacks")
_routine_address = lazy_import("tracker.jit.lapack.routines", "routine_address")
_register_for_gdb = lazy_import("tracker.jit.llvm.gdb", "register")
_RAW_MEMORY = {"tk.take": "PyMem_RawMalloc", "tk.give": "PyMem_RawFree"}  # work without the GIL
_FAIL_EXIT = "\n  ret i64 1\n"  # in the text of a plan with guards
# a number of two digits is relocatable, not in the text (`jit/llvm/size_parameters.py`)
_MIN_WORK = 10


@record()
class LinkedProgram:
    """A native entry, and the program that it runs."""

    program: Program
    modules: tuple[Any, ...]
    entry: Any
    scratch: int

    @property
    def plan(self) -> Plan:
        return self.program.plan


@record()
class CompiledTrace:
    """The result of compiling a trace. `entry` is the native entry of a program that is one native
    call, else `run` executes its stages; `optimised` compiles quick code again, which takes about
    `optimising_seconds`; `seconds` are those of each step."""

    program: Program
    pieces: list[LinkedProgram]
    host_calls: list[HostCall]
    entry: Any = None
    run: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None
    optimised: Callable[[], CompiledTrace] | None = None
    optimising_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def function(self) -> Function:
        """The function that runs, after all passes."""
        return self.program.function


def bind(
    program: Program,
    lowered: LoweredProgram,
    call: Signature,
    outputs: Outputs,
    captures: Sequence[Any] = (),
    level: int = engine.OPTIMISED,
    laps: np.ndarray[Any, Any] | None = None,
) -> LinkedProgram:
    """Machine code of this level for a call of this signature; `laps`: the cells of a text that
    times its steps (`codegen/stopwatch.py`)."""
    symbols, keep = _symbols(lowered, level, laps)
    size = sum(v.type.size for v in program.traced.inputs) + lowered.scratch // 8
    pauses = interrupt_checks.NAME in lowered.symbols
    prepared = loader.prepare_entry(
        lowered.text,
        call,
        outputs,
        captures,
        symbols=symbols,
        kept_alive=keep,
        traits=PlanTraits(
            releases_gil=pauses,
            work=max(size, _MIN_WORK) if CALL_PATTERN.search(lowered.text) else 0,
            may_raise=pauses or bool(lowered.ufunc_loops or lowered.callbacks),
            has_guards=_FAIL_EXIT in lowered.text,
            counts_calls=lowered.is_long,
        ),
    )
    entry = loader.compile_entry(prepared, level)
    modules = _linked_modules(program, lowered, entry.module, keep)
    return LinkedProgram(program, modules, entry, lowered.scratch)


def bind_frame(
    program: Program,
    lowered: LoweredProgram,
    leaves: tuple[ArrayLeaf | ScalarLeaf, ...],
    outputs: tuple[ArrayOut | ScalarOut, ...],
    level: int,
) -> FrameCall:
    """Machine code of this level, which Python calls with arguments of these leaves."""
    symbols, keep = _symbols(lowered, level)
    is_long = interrupt_checks.NAME in lowered.symbols or lowered.operations > MIN_WORK_WITHOUT_GIL
    call = FrameCall(lowered.text, leaves, outputs, level, symbols, keep, releases_gil=is_long)
    _linked_modules(program, lowered, call.module, keep)
    return call


def _symbols(
    lowered: LoweredProgram, level: int, laps: np.ndarray[Any, Any] | None = None
) -> tuple[dict[str, int], list[Any]]:
    """The addresses of all names of a text, and the modules and objects behind them."""
    keep: list[Any] = [laps]
    symbols = _compiled_functions(lowered, level, keep)
    if laps is not None:
        symbols.update(loader.buffer_addresses({LAPS: laps}))
    if lowered.callbacks:
        addresses, needed = _bound_callbacks(lowered.callbacks)
        symbols.update(addresses)
        keep += needed
    return symbols, keep


def _linked_modules(
    program: Program, lowered: LoweredProgram, first: engine.Module, keep: Sequence[Any]
) -> tuple[engine.Module, ...]:
    """All modules of a program, shown to who asks for them."""
    modules = (first, *[each for each in keep if isinstance(each, engine.Module)])
    for module in modules:
        if current().perf:
            perf_map.write(module, program.traced.name, lowered.descriptions)
        if current().gdb:
            _register_for_gdb(module, program.traced.name, lowered.descriptions)
        for stage in current().dump & {"llvm", "asm"}:
            dump(stage, functools.partial(getattr, module, stage))
    program.drop_intermediates()
    return modules


def _compiled_functions(lowered: LoweredProgram, level: int, keep: list[Any]) -> dict[str, int]:
    """The addresses of what a text calls, its own kernels and bodies compiled; `keep` gets their
    modules, and the objects behind the addresses."""
    kernel_level = engine.OPTIMISED if level == engine.KERNELS_OPTIMISED else level
    symbols = {**loader.loop_symbols(lowered.ufunc_loops), **_addresses(lowered, kernel_level)}

    def compiled(text: str, level: int, symbols: dict[str, int]) -> engine.Module:
        text, tables = loader.lift_to_buffers(text)
        bound = {**loader.buffer_addresses(tables), **symbols}
        module = object_cache.compile_or_load(text, level=level, symbols=bound)
        keep.extend((module, *tables.values()))
        return module

    for each in lowered.kernel_modules:
        module = compiled(each.text, kernel_level, symbols)
        symbols.update((name, module.address(name)) for name in each.exports)
    for name, body in lowered.bodies.items():
        module = compiled(body.text, level, _compiled_functions(body, level, keep))
        symbols[name] = module.address(BODY)
    return symbols


def _addresses(lowered: LoweredProgram, level: int) -> dict[str, int]:
    """The addresses of external functions that the text calls; those of ours of this level."""
    symbols: dict[str, int] = {}
    library = blas.find() if lowered.symbols else None
    for name in lowered.symbols:
        if library is not None and name in library.symbols:
            symbols[name] = library.symbols[name]
        elif name in allocator.NAMES:
            symbols[name] = _allocator_address(name, lowered.scratch)
        elif name == thread_pool.NAME:
            symbols.update(thread_pool.symbols())
        elif name == interrupt_checks.NAME:
            symbols[name] = c_symbols.address_of(name)
        else:
            symbols[name] = _routine_address(name, level)
    return symbols


def _allocator_address(name: str, size: int) -> int:
    """The function that allocates scratch of this size, or frees it."""
    if size >= allocator.MIN_BLOCK:
        return c_symbols.address_of(name)
    return c_symbols.address_of(_RAW_MEMORY[name])
