"""From LLVM IR text to machine code at an address; the one file that imports llvmlite.

`compile_module` parses, optimises and loads a text; `load` links an object file compiled before.

Invariants:
- External names are bound to addresses when an object is linked, so neither text nor object holds
  an address of this process. Code is position independent: a symbol may be at any distance.
- Machine code lives as long as its `Module`. The next link frees the code of dead modules; no
  Python runs when a module dies.
- Every call into LLVM holds `LOCK`, and so do forks; signals are deferred meanwhile. llvmlite's
  objects have finalisers, in which an exception of a signal handler would be lost, so they also die
  under the lock.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from tracker.errors import CompileError
from tracker.jit.llvm.driver_functions import (
    inline_bodies,
    is_driver,
    without_optimising_drivers,
)
from tracker.jit.llvm.fast_isel import rewrite_for_fast_isel
from tracker.jit.llvm.lock import LOCK, locked_cache
from tracker.jit.llvm.loop_widening import widen_loops
from tracker.jit.llvm.math_calls import call_math_of_long_texts
from tracker.jit.llvm.text_writer import function_spans
from tracker.support.forks import register_at_fork
from tracker.support.structs import record, replace

_LIBRARY_NUMBERS = itertools.count()
_libraries: dict[weakref.ref[Module], Any] = {}  # of live and dead modules
_dead_modules: deque[weakref.ref[Module]] = deque()
_LIBRARIES_PER_LINKER = 64  # making a linker takes a millisecond


# Levels of `compile_module`; code of any computes the same numbers, to the last bit.
OPTIMISED, KERNELS_OPTIMISED, QUICK = 3, 2, 0

# Bounds in lines of IR. Measured on random straight-line arithmetic: the optimising code generator
# takes 250 ms for a block of 4,000 lines and 5 s for one of 20,000, the fast one 20 and 340 ms, and
# its code is as fast (arithmetic) or a fifth slower (calls of math functions).
MAX_SHORT_BLOCK = 500
MAX_SHORT_FUNCTION = 2000  # of short blocks
MAX_OPTIMISED_CODEGEN_BLOCK = 2000
MAX_GVN_WRITES = 8000  # stores and calls: value numbering is quadratic in these
MAX_GVN_LOOPS = 50  # in a function: one GVN pass each, and LLVM aborts the process at 100
MAX_LSR_BLOCK = 128  # LSR takes half of the compile time of loops over 20 arrays, and gains 2 %
_CODEGEN = 2  # LLVM's level 3 gains nothing
LINES_PER_CALL = 4  # arithmetic lines per call, below which code is "mostly calls"

_LAST_KNOWN_LLVM = 22  # the last version whose options are known

_BLOCK_END = re.compile(r'\n(?:[-\w.$"]+:|\})')  # a pattern with one first character is fast
_PHI = " = phi "
_ERROR_POSITION = re.compile(r":(\d+):(\d+):")
# Names are looked up in the text: each question to LLVM may wait for the interpreter's lock, for
# 5 ms where another thread computes.
_EXPORTED_NAME = re.compile(
    r"^(?:define (?!internal |private )[^@\n]*)?@([-\w.$]+)"
    r"(?:\(| = (?!external |internal |private ))",
    re.MULTILINE,
)
_EXTERNAL_NAME = re.compile(r"^declare [^@\n]*@([-\w.$]+)|^@([-\w.$]+) = external", re.MULTILINE)


@record(frozen=True)
class Pipeline:
    """How a text is compiled.

    `codegen_level`: 0 is the fast code generator. `optimises`: run passes on the IR. `gvn`: global
    value numbering is among them. `lsr`: run loop strength reduction.
    """

    codegen_level: int
    optimises: bool = True
    gvn: bool = True
    lsr: bool = True


_QUICK_PIPELINE = Pipeline(0, optimises=False, gvn=False)


@record(frozen=True)
class Timings:
    """Seconds spent in each step."""

    parse: float = 0.0
    optimise: float = 0.0
    codegen: float = 0.0
    link: float = 0.0


class Module:
    """Machine code in memory, for as long as this object lives."""

    def __init__(
        self, library: Any, object_code: bytes, exports: tuple[str, ...], text: str, level: int
    ) -> None:
        self._library = library
        _libraries[weakref.ref(self, _dead_modules.append)] = library
        self._level = level
        self.object_code = object_code
        self.exports = exports
        self.text = text
        self.timings = Timings()

    def address(self, name: str) -> int:
        """The address of an exported function or variable."""
        if name not in self.exports:
            raise CompileError(f"no symbol {name!r} in this module; it has {self.exports}")
        return int(self._library[name])

    @functools.cached_property
    def llvm(self) -> str:
        """The optimised IR, computed on demand."""
        with LOCK:
            return str(_parse_and_optimise(*self._prepared())[0])

    @functools.cached_property
    def asm(self) -> str:
        """The assembly text, computed on demand."""
        with LOCK:
            return _assembly(*self._prepared())

    def _prepared(self) -> tuple[str, Pipeline]:
        if not self.text:
            raise CompileError("this module was loaded from an object file without its text")
        return prepare(self.text, self._level)

    def __repr__(self) -> str:
        return f"<Module {', '.join(self.exports)}: {len(self.object_code)} bytes>"


def compile_module(
    text: str, *, level: int = OPTIMISED, symbols: Mapping[str, int] | None = None
) -> Module:
    """Parse, optimise and load IR text; `symbols` gives the addresses of its external names.

    QUICK is for code that calls and branches more than it computes, or that takes a small part of
    the run time: compiling takes a fifth of the time, and the code runs up to four times as long.
    KERNELS_OPTIMISED optimises all but the functions that call kernels: for arrays the code is as
    fast, and compiling takes half of the time.
    """
    prepared = prepare(text, level)
    with LOCK:
        object_code, exports, timings = _object_code(*prepared)
        module = load(object_code, exports, symbols=symbols, text=text, level=level)
    module.timings = replace(timings, link=module.timings.link)
    return module


def _object_code(text: str, pipeline: Pipeline) -> tuple[bytes, tuple[str, ...], Timings]:
    module, timings = _parse_and_optimise(text, pipeline)
    started = time.perf_counter()
    with _switches_of_codegen(pipeline.lsr):
        object_code = bytes(_target_machine(pipeline.codegen_level).emit_object(module))
    exports = tuple(match[1] for match in _EXPORTED_NAME.finditer(text))
    return object_code, exports, replace(timings, codegen=time.perf_counter() - started)


def _assembly(text: str, pipeline: Pipeline) -> str:
    module, _ = _parse_and_optimise(text, pipeline)
    with _switches_of_codegen(pipeline.lsr):
        return str(_target_machine(pipeline.codegen_level).emit_assembly(module))


@contextmanager
def _switches_of_codegen(lsr: bool = True) -> Iterator[None]:
    """Phis keep their types: where LLVM 22 made doubles of integers that come and go as doubles, a
    nest of loops gave other numbers."""
    keeps_types = _switch("cgp-optimize-phi-types", False, True)
    with keeps_types, _switch("disable-lsr", True, not lsr):
        yield


@contextmanager
def _switch(name: str, value: bool, needed: bool) -> Iterator[None]:
    """Set one of LLVM's switches, if needed, and back. They are those of the process, and an
    unknown one ends the process, hence the version check."""
    if not needed or llvm.llvm_version_info[0] > _LAST_KNOWN_LLVM:
        yield
        return
    llvm.set_option("tracker", f"-{name}={value}".lower())
    try:
        yield
    finally:
        llvm.set_option("tracker", f"-{name}={not value}".lower())


def export_object(
    functions: Mapping[str, Iterable[str]], public: Iterable[str], native: bool
) -> tuple[bytes, list[str]]:
    """An object file of functions that may call each other, each linked from the texts of its
    modules, and the functions that it takes from outside; only the public ones can be called from
    outside.

    native: compile for this processor, otherwise for the baseline of the target.
    """
    with LOCK:
        machine = _target().create_target_machine(
            cpu=llvm.get_host_cpu_name() if native else "",
            features=llvm.get_host_cpu_features().flatten() if native else "",
            opt=3,
            reloc="pic",
            codemodel="default",
        )
        merged = None
        for name, texts in functions.items():
            module = _link_modules(texts, name)
            if merged is None:
                merged = module
            else:
                merged.link_in(module)
        assert merged is not None
        _internalise(merged, set(public))
        merged.triple, merged.data_layout = machine.triple, str(machine.target_data)
        _run_all_passes(merged, machine)
        outside = [function.name for function in merged.functions if function.is_declaration]
        with _switches_of_codegen():
            return bytes(machine.emit_object(merged)), outside


def _link_modules(texts: Iterable[str], public: str) -> Any:
    """One module of several; only the function `public` is visible from outside."""
    first, *others = map(llvm.parse_assembly, texts)
    for other in others:
        first.link_in(other)
    _internalise(first, {public})
    first.verify()
    return first


def _internalise(module: Any, public: set[str]) -> None:
    """Hide all functions of a module but these."""
    for function in module.functions:
        if not function.is_declaration:
            shown = function.name in public
            function.linkage = llvm.Linkage.external if shown else llvm.Linkage.internal


def load(
    object_code: bytes,
    exports: Iterable[str],
    *,
    symbols: Mapping[str, int] | None = None,
    text: str = "",
    level: int = OPTIMISED,
) -> Module:
    """Link an object file from `Module.object_code`, possibly of an earlier process."""
    names = tuple(exports)
    with LOCK:
        started = time.perf_counter()
        _free_dead_modules()
        library = _link_library(object_code, names, symbols or {}, text)
        module = Module(library, object_code, names, text, level)
        module.timings = Timings(link=time.perf_counter() - started)
    return module


def _free_dead_modules() -> None:
    """Free the machine code of dead modules; the caller holds the lock."""
    while _dead_modules:
        _libraries.pop(_dead_modules.popleft()).close()


def _link_library(
    object_code: bytes, names: Iterable[str], symbols: Mapping[str, int], text: str
) -> Any:
    builder = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    try:
        return builder.link(_LINKER_POOL.next(), f"tracker.{next(_LIBRARY_NUMBERS)}")
    except RecursionError:  # a RuntimeError that is not LLVM's
        raise
    except RuntimeError as error:
        missing = _undefined_symbols(text, symbols)
        reason = f"no address for {', '.join(missing)}" if missing else str(error).strip()
        raise CompileError(f"linking failed: {reason}") from None


def prepare(text: str, level: int) -> tuple[str, Pipeline]:
    """A text with vector loops, in which sums have their final order, and its pipeline."""
    text = call_math_of_long_texts(widen_loops(text).replace(" reassoc ", " "))
    if level == QUICK:
        return text, _QUICK_PIPELINE
    text = without_optimising_drivers(text) if level == KERNELS_OPTIMISED else inline_bodies(text)
    return text, choose_pipeline(text)


def choose_pipeline(text: str) -> Pipeline:
    """The pipeline for an optimised text."""
    numbered = (
        llvm.llvm_version_info[0] <= _LAST_KNOWN_LLVM  # see `_parse_and_optimise`
        and text.count("  store ") + text.count("  call void @") <= MAX_GVN_WRITES
        and _max_loops(text) <= MAX_GVN_LOOPS
    )
    longest, straight = longest_block(text), _PHI not in text
    codegen = _codegen_level(text, longest, straight and is_long(text))
    lsr = straight or not codegen or longest <= MAX_LSR_BLOCK
    return Pipeline(codegen, gvn=numbered, lsr=lsr)


def is_long(text: str) -> bool:
    """Whether a text has a long block or function."""
    return longest_block(text) > MAX_SHORT_BLOCK or longest_function(text) > MAX_SHORT_FUNCTION


def _codegen_level(text: str, longest: int, long: bool) -> int:
    """`long`: straight-line code beyond the bounds."""
    if longest > MAX_OPTIMISED_CODEGEN_BLOCK or (long and _is_mostly_calls(text)):
        return 0
    return 1 if long else _CODEGEN


def _is_mostly_calls(text: str) -> bool:
    """Whether straight-line code mainly calls loops and BLAS. Its own quality hardly matters then,
    and the optimising code generator is 20 times slower on it than the fast one."""
    return text.count("  call void @") * LINES_PER_CALL > text.count(" = f") + text.count(
        " = select"
    )


def longest_function(text: str) -> int:
    """Lines in the longest function."""
    return max((text.count("\n", *span) for span in function_spans(text)), default=0)


def _max_loops(text: str) -> int:
    """The largest number of loops in one function; those of drivers together, which are inlined.
    Kernels count in a phi, the loops of `control` in memory."""
    marks = (_PHI, "\nloop.", "\nwhile.")
    of_drivers, most = 0, 0
    for start, end in function_spans(text):
        count = sum(text.count(mark, start, end) for mark in marks)
        if count and is_driver(text, start):
            of_drivers += count
        most = max(most, count)
    return max(most, of_drivers)


def longest_block(text: str) -> int:
    """Lines in the longest basic block."""
    at, longest = 0, 0
    for end in _BLOCK_END.finditer(text):
        longest = max(longest, text.count("\n", at, end.start() + 1))
        at = end.end()
    return longest


@functools.cache
def host_description() -> str:
    """Processor, its features and LLVM's version: what an object file is valid for."""
    features = llvm.get_host_cpu_features().flatten()
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features} llvm-{version}"


def _parse_and_optimise(text: str, pipeline: Pipeline) -> tuple[Any, Timings]:
    started = time.perf_counter()
    machine = _target_machine(pipeline.codegen_level)
    if not pipeline.codegen_level:
        text = rewrite_for_fast_isel(text, longest_block(text) > MAX_SHORT_BLOCK)
    try:
        module = llvm.parse_assembly(_target_header() + text)
        module.verify()
    except RecursionError:
        raise
    except RuntimeError as error:
        raise CompileError(_format_parse_error(str(error), text)) from None
    parsed = time.perf_counter()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0))
    with _switch("enable-phi-of-ops", False, pipeline.gvn):  # it may not end
        _run(_passes(pipeline), module, builder)
    return module, Timings(parsed - started, time.perf_counter() - parsed)


def _run_all_passes(module: Any, machine: Any) -> None:
    """Run LLVM's own pipeline: it gains a few percent, in ten times the time."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    _run(builder.getModulePassManager(), module, builder)


def _run(passes: Any, module: Any, builder: Any) -> None:
    try:
        passes.run(module, builder)
    finally:  # llvmlite's class does not: one base hides the other's method
        NewPassManager._dispose(passes)
        passes.detach()


def _passes(pipeline: Pipeline) -> Any:
    """Passes, each once, after our own passes on our IR and our vector code for loops.

    Not InstCombine: it looks six levels up from every instruction, 7 us each, and finds little. Not
    dead store elimination: where arrays are written in place it takes longer than all other passes.
    GVN is worth a quarter of the run time, and costs 0.5 s at MAX_GVN_WRITES.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    if pipeline.optimises:
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        if pipeline.gvn:
            passes.add_new_gvn_pass()
        passes.add_aggressive_dce_pass()
    return passes


@locked_cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@locked_cache
def _target_machine(level: int) -> Any:
    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@locked_cache
def _target_header() -> str:
    """The target's part of a text, without a line of its own: errors show lines."""
    machine = _target_machine(QUICK)
    return f'target datalayout = "{machine.target_data}" target triple = "{machine.triple}" '


class _LinkerPool:
    """The linker for the next library. JITLink reaches far symbols through stubs and frees the
    memory of a library, except 10 kB that go with the linker: so a linker serves
    _LIBRARIES_PER_LINKER libraries and dies with the last. At interpreter exit llvmlite disposes of
    nothing, so types and functions that outlive this module still work."""

    def __init__(self) -> None:
        self._linker: Any = None
        self._library_count = 0

    def next(self) -> Any:
        """The linker for one more library; the caller holds the lock."""
        if self._library_count % _LIBRARIES_PER_LINKER == 0:
            self._linker = llvm.create_lljit_compiler(
                _target_machine(2), use_jit_link=True, suppress_errors=True
            )
        self._library_count += 1
        return self._linker


_LINKER_POOL = _LinkerPool()


def _format_parse_error(error: str, text: str) -> str:
    """LLVM's message with the lines of IR around its position."""
    position = _ERROR_POSITION.search(error)
    if position is None:
        return f"LLVM refused the IR: {error.strip()}"
    first = next(line for line in error.splitlines() if _ERROR_POSITION.search(line))
    number = int(position.group(1))
    lines = text.splitlines()
    nearby = range(max(1, number - 2), min(len(lines), number + 2) + 1)
    window = "\n".join(f"{'>' if at == number else ' '} {at:5} {lines[at - 1]}" for at in nearby)
    return f"LLVM refused the IR: {first}\n{window}"


def _undefined_symbols(text: str, symbols: Mapping[str, int]) -> list[str]:
    """External names of a text that nothing defines."""
    names = {a or b for a, b in _EXTERNAL_NAME.findall(text)} - set(symbols)
    return sorted(
        name
        for name in names
        if not name.startswith("llvm.") and llvm.address_of_symbol(name) is None
    )


# A forked child needs free locks and LLVM between two calls. Finalisers take llvmlite's own lock
# without ours.
_LLVMLITE_LOCK: Any = llvm.ffi.lib._lock


def _before_fork() -> None:
    LOCK.acquire()
    _LLVMLITE_LOCK.__enter__()


def _after_fork() -> None:
    _LLVMLITE_LOCK.__exit__(None, None, None)
    LOCK.release()


register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
