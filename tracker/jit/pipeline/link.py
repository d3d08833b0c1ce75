"""From a program's text to machine code that can be called.

Owns: `LinkedProgram`, a native entry with the program that it runs; `bind`, which makes one;
`CompiledTrace`, what became of a whole trace. A text is compiled, or its object code found
(`jit/llvm/object_cache.py`); the names in it are bound to addresses here.

Loops that were compiled for another shape, linked again.

Owns: `link_kernels`. Which loops of a program make a module of their own, and in what order they
stand in it, follows from how many elements each has (`jit/codegen/module_split.py`), so another
shape may have the same loops in other modules. A loop's text without its sizes and its name tells
which it is; where all loops of a module are part of some object code of this process, that code is
linked with this shape's tables.

Data: `_compiled_in`, from the text of a loop (see `_kernel_texts`) to the modules that it was
compiled in and its name there; a module is a text with its level, as `cache.recent` has it.
Invariants: a loop that is urgent is taken from a module compiled at least as well as the one that
is asked for; a link of a module has one table for each function, so it serves one loop for each of
its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tracker.config import current, dump
from tracker.ir.graph import Atom, Function
from tracker.jit.abi import loader
from tracker.jit.abi.entry import PlanTraits
from tracker.jit.codegen.artifact import CALL_PATTERN, LoweredProgram
from tracker.jit.guards import signature
from tracker.jit.guards.signature import ArrayOut, OutLeaf, Outputs, ScalarOut, Signature
from tracker.jit.llvm import engine
from tracker.jit.pipeline.program import Program
from tracker.jit.runtime import (
    allocator,
    blas,
    c_symbols,
    interrupt_checks,
    lazy_imports,
    thread_pool,
)
from tracker.jit.schedule.plan_data import Plan
from tracker.ops.shape.memory_order import MemoryOrder, c_strides
from tracker.support.structs import field, record

if TYPE_CHECKING:
    from tracker.jit.pipeline.partition import HostCall


import re
from collections.abc import Mapping

from tracker.jit.codegen.artifact import KernelModule
from tracker.jit.llvm import object_cache, relocatable_sizes

_RAW_MEMORY = {
    "tk.take": "PyMem_RawMalloc",
    "tk.give": "PyMem_RawFree",
}  # needs no lock of Python's
_FAIL_EXIT = "\n  ret i64 1\n"  # in the text of a plan that may find that its trace does not hold
# a number of two digits is one that the text does not show (`jit/llvm/relocatable_sizes.py`)
_MIN_WORK = 10


@record()
class LinkedProgram:
    """A native entry."""

    program: Program
    modules: tuple[Any, ...]
    entry: Any
    scratch: int

    @property
    def plan(self) -> Plan:
        return self.program.plan


@record()
class CompiledTrace:
    """What compiling a trace gave. `entry` is the native entry of a program that is lowered whole,
    else `run` executes its stages; `seconds` are those of each step."""

    program: Program
    pieces: list[LinkedProgram]
    host_calls: list[HostCall]
    entry: Any = None
    run: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def function(self) -> Function:
        """The function that is run, after all passes."""
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
        addresses, needed = lazy_imports.bound_callbacks(lowered.callbacks)
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
    """Those of the functions that the text calls besides its own and the processor's."""
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
            symbols[name] = lazy_imports.routine_address(name)
    return symbols


def _allocator_address(name: str, size: int) -> int:
    """The function that takes scratch of this size, or gives it back."""
    if size >= allocator.MIN_BLOCK:
        return allocator.symbols()[name]
    return c_symbols.address_of(_RAW_MEMORY[name])


# How things lie --------------------------------------------------------------------------------


def leaf_strides(array: Any) -> tuple[int, ...]:
    """Those of an array, or of the leaf that stands for one, in elements; a number has none."""
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


_MAX_KERNELS = 1000  # loops that are remembered
_MAX_MODULES = 4  # modules for each
_TABLE = re.compile(rf"\n@({re.escape(relocatable_sizes.table_symbol(''))}[\w.]+) = external")
_UNUSED_TABLE = 8  # an address for the table of a loop that nobody calls

_Module = tuple[str, int]
_compiled_in: dict[str, list[tuple[_Module, str]]] = {}


@record()
class _LinkedModule:
    """A module that is linked, and whom its loops stand for: name there -> name here."""

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
        made = object_cache.compile_or_load(text, level=loops.level, symbols=bound)
        _remember(parts, module)
        return {name: made.address(name) for name in loops.exports}, [made], [*tables.values()]
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
    """The loops of a module of these, by name: the texts of their functions, without that name."""
    found: dict[str, str] = {}
    for name, part in relocatable_sizes.split_functions(text):
        if name is not None:
            loop = _kernel_of(name)
            nameless = re.sub(
                rf"@((?:{re.escape(relocatable_sizes.table_symbol(''))})?){loop}\b", r"@\1", part
            )
            found[loop] = found.get(loop, "") + nameless
    return found


def _find_modules(parts: Mapping[str, str], loops: KernelModule) -> list[_LinkedModule] | None:
    """Modules of this process that have all of the loops; None if there are none."""
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
    """Let a link serve a loop: one that is there already, if it has a place for it."""
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
