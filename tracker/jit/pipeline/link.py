"""Linking: from the text of a program to callable machine code.

A text is compiled, or its object code found (`jit/llvm/object_cache.py`); names in it are bound to
addresses. `bind` makes a `LinkedProgram`; a `CompiledTrace` is the result for a whole trace.

Kernel reuse (`link_kernels`). Which kernels of a program share a module, and in what order, depends
on how many elements each has (`jit/codegen/module_split.py`), so another shape may have the same
kernels in other modules. A kernel's text without its sizes and its name identifies it; where all
kernels of a module exist in object code of this process, that code is linked with the new sizes.
`_compiled_in` maps the text of a kernel to the modules that contain it, and its name there.

Invariants: a hot kernel is taken only from a module of at least the wanted optimisation level; a
linked module has one table of sizes for each function, so it serves one kernel for each of its own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracker.config import current, dump
from tracker.ir.graph import Atom, Function
from tracker.jit.abi import loader
from tracker.jit.abi.entry import PlanTraits
from tracker.jit.codegen.artifact import CALL_PATTERN, KernelModule, LoweredProgram
from tracker.jit.guards import signature
from tracker.jit.guards.signature import ArrayOut, OutLeaf, Outputs, ScalarOut, Signature
from tracker.jit.llvm import engine, object_cache, relocatable_sizes
from tracker.jit.pipeline.program import Program
from tracker.jit.runtime import allocator, blas, c_symbols, interrupt_checks, thread_pool
from tracker.jit.runtime.lazy_imports import lazy_import
from tracker.jit.schedule.plan_data import Plan
from tracker.ops.shape.memory_order import MemoryOrder, c_strides
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.pipeline.partition import HostCall

_bound_callbacks = lazy_import("tracker.jit.kernels.python_callbacks", "bound_callbacks")
_routine_address = lazy_import("tracker.jit.lapack.routines", "routine_address")
_RAW_MEMORY = {"tk.take": "PyMem_RawMalloc", "tk.give": "PyMem_RawFree"}  # work without the GIL
_FAIL_EXIT = "\n  ret i64 1\n"  # in the text of a plan with guards
# a number of two digits is relocatable, not in the text (`jit/llvm/relocatable_sizes.py`)
_MIN_WORK = 10
_MAX_KERNELS = 1000  # kernels kept
_MAX_MODULES = 4  # modules kept for each
_TABLE = re.compile(rf"\n@({re.escape(relocatable_sizes.table_symbol(''))}[\w.]+) = external")
_UNUSED_TABLE = 8  # an address for the table of a kernel that is not called
_Module = tuple[str, int]
_compiled_in: dict[str, list[tuple[_Module, str]]] = {}


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
    call, else `run` executes its stages; `seconds` are those of each step."""

    program: Program
    pieces: list[LinkedProgram]
    host_calls: list[HostCall]
    entry: Any = None
    run: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None
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
) -> LinkedProgram:
    """Machine code for a call of this signature."""
    loans = loader.loop_symbols(lowered.ufunc_loops)
    symbols = {**loans, **_addresses(lowered)}
    modules: list[engine.Module] = []
    keep: list[Any] = []
    for each in lowered.kernel_modules:
        addresses, linked, needed = link_kernels(each, loans)
        symbols.update(addresses)
        modules += linked
        keep += [*linked, *needed]
    if lowered.callbacks:
        addresses, needed = _bound_callbacks(lowered.callbacks)
        symbols.update(addresses)
        keep += needed
    size = sum(v.type.size for v in program.traced.inputs) + lowered.scratch // 8
    pauses = interrupt_checks.NAME in lowered.symbols
    entry = loader.compile_entry(
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
        ),
        level=lowered.level,
    )
    for module in (entry.module, *modules):
        for stage in current().dump & {"llvm", "asm"}:
            dump(stage, functools.partial(getattr, module, stage))
    program.drop_intermediates()
    return LinkedProgram(program, (entry.module, *modules), entry, lowered.scratch)


def _addresses(lowered: LoweredProgram) -> dict[str, int]:
    """The addresses of external functions that the text calls."""
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
            symbols.update(interrupt_checks.symbols())
        else:
            symbols[name] = _routine_address(name)
    return symbols


def _allocator_address(name: str, size: int) -> int:
    """The function that allocates scratch of this size, or frees it."""
    if size >= allocator.MIN_BLOCK:
        return allocator.symbols()[name]
    return c_symbols.address_of(_RAW_MEMORY[name])


# Layouts ------------------------------------------------------------------------------------------


def leaf_strides(array: Any) -> tuple[int, ...]:
    """The strides in elements of an array or an array leaf; a number has none."""
    if isinstance(array, signature.ScalarLeaf):
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


# Kernel reuse -------------------------------------------------------------------------------------


@record()
class _LinkedModule:
    """A compiled module to link, and which kernels its functions serve: name there -> name here."""

    module: _Module
    names: dict[str, str] = field(default_factory=dict)


def link_kernels(
    loops: KernelModule, loans: Mapping[str, int]
) -> tuple[dict[str, int], list[engine.Module], list[Any]]:
    """The addresses of a module's functions, the modules that they are in, and what these need."""
    text, tables = loader.lift_to_buffers(loops.text)
    module = text, loops.level
    is_known = object_cache.find_recent(*module) is not None
    parts = {} if loans or is_known else _kernel_texts(text)
    links = None if is_known else _find_modules(parts, loops)
    if links is None:
        bound = {**loader.buffer_addresses(tables), **loans}
        compiled = object_cache.compile_or_load(text, level=loops.level, symbols=bound)
        _remember(parts, module)
        return (
            {name: compiled.address(name) for name in loops.exports},
            [compiled],
            [*tables.values()],
        )
    modules = [_load_module(each, loader.buffer_addresses(tables)) for each in links]
    home = {
        here: (linked, there)
        for linked, each in zip(modules, links, strict=True)
        for there, here in each.names.items()
    }
    addresses = {}
    for name in loops.exports:
        linked, there = home[_kernel_of(name)]
        addresses[name] = linked.address(there + name[len(_kernel_of(name)) :])
    return addresses, modules, [*tables.values()]


def _kernel_of(function: str) -> str:
    """k5 of k5, k5.far and k5.task."""
    return function.partition(".")[0]


def _kernel_texts(text: str) -> dict[str, str]:
    """The kernels of a module by name: the texts of their functions, without that name."""
    texts: dict[str, str] = {}
    for name, part in relocatable_sizes.split_functions(text):
        if name is not None:
            loop = _kernel_of(name)
            nameless = re.sub(
                rf"@((?:{re.escape(relocatable_sizes.table_symbol(''))})?){loop}\b", r"@\1", part
            )
            texts[loop] = texts.get(loop, "") + nameless
    return texts


def _find_modules(parts: Mapping[str, str], loops: KernelModule) -> list[_LinkedModule] | None:
    """Modules of this process that have all of the kernels; None if there are none."""
    links: list[_LinkedModule] = []
    urgent = set(map(_kernel_of, loops.hot_exports))
    for name, text in parts.items():
        level = loops.level if name in urgent else 0
        places = [
            place
            for place in _compiled_in.get(text, ())
            if place[0][1] >= level and object_cache.find_recent(*place[0])
        ]
        if not places:
            return None
        _assign_module(name, places, links)
    return links or None


def _assign_module(
    name: str, places: list[tuple[_Module, str]], links: list[_LinkedModule]
) -> None:
    """Serve a kernel by a linked module with a function left for it, else by another."""
    for module, there in places:
        for link in links:
            if link.module == module and there not in link.names:
                link.names[there] = name
                return
    module, there = places[0]
    links.append(_LinkedModule(module, {there: name}))


def _load_module(link: _LinkedModule, tables: Mapping[str, int]) -> engine.Module:
    text, level = link.module
    symbols = {}
    for symbol in _TABLE.findall(f"\n{text}"):
        function = symbol[len(relocatable_sizes.table_symbol("")) :]
        loop = _kernel_of(function)
        here = link.names.get(loop, "") + function[len(loop) :]
        symbols[symbol] = tables.get(relocatable_sizes.table_symbol(here), _UNUSED_TABLE)
    return object_cache.compile_or_load(text, level=level, symbols=symbols)


def _remember(parts: Mapping[str, str], module: _Module) -> None:
    for name, text in parts.items():
        places = _compiled_in.setdefault(text, [])
        places[:] = [(module, name), *(each for each in places if each[0] != module)][:_MAX_MODULES]
    while len(_compiled_in) > _MAX_KERNELS:
        _compiled_in.pop(next(iter(_compiled_in), ""), None)
