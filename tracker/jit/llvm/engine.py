"""LLVM: from IR text to machine code at an address. The one file that imports llvmlite.

Owns: the host's target machines, the optimisation pipelines, the linker, and `Module` (loaded
machine code). Start at `compile_module`; `load` takes an object file compiled before.

Invariants: external names are bound to addresses when an object is linked, so neither text nor
object holds an address of this process, and code is position independent: any symbol may be any
distance away. Machine code lives as long as its `Module`; of modules that are gone, the next link
frees it. Every call into LLVM holds `LOCK` (`lock.py`), and forking waits for it; so does an
interrupt (Ctrl-C). llvmlite's objects have finalisers, and nobody hears of an interrupt in one:
they die while the lock is held. No Python runs when a module goes, wherever that is.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from tracker.errors import CompileError
from tracker.jit.llvm.fast_isel import known_to_it
from tracker.jit.llvm.lock import LOCK, once
from tracker.support.structs import record, replace

_NAMES = itertools.count()
_libraries: dict[weakref.ref[Module], Any] = {}  # of modules, and of those that are _gone
_gone: deque[weakref.ref[Module]] = deque()
_SHARE = 64  # libraries of one linker, which takes a millisecond to make
_Result = TypeVar("_Result")


# How well a text is compiled (see `compile_module`).
OPTIMISED, HURRIED, ONCE, QUICK = 3, 2, 1, 0

# Bounds on the longest basic block, in lines of IR. Measured on random straight-line arithmetic:
# the SLP vectoriser needs 20 ms for 100 lines and 500 ms for 1,000; the standard pipeline 1.2 ms
# for 100 lines without it (it runs InstCombine again and again); the optimising code generator
# 250 ms for 4,000 lines and 5 s for 20,000, the fast one 20 and 340 ms, and its code is as fast
# (arithmetic) or takes a fifth longer (calls of math functions).
SLP_LINES = 128
STRAIGHT_LINES = 500
FAST_CODEGEN_LINES = 2000
BRANCHING_LINES = 2000  # of a function of short blocks: the standard pipeline is worse than linear
NUMBERED_WRITES = 8000  # writes and calls of straight code: value numbering is quadratic in these
NUMBERED_LOOPS = 50  # of a function: it takes a pass for each, and LLVM ends the process at 100
REDUCED_LINES = 128  # strength reduction takes half of all for loops over 20 arrays, and gains 2 %
CALL_LINES = 4  # arithmetic lines to a call, below which code is "mostly calls"

_KNOWN_LLVM = 22  # the last version of which it is known what it is told by options

_BLOCK_END = re.compile(r'\n(?:[-\w.$"]+:|\})')  # what begins with one character is soon found
_FUNCTION_END, _PHI = "\n}", " = phi "
_POSITION = re.compile(r":(\d+):(\d+):")
_EXTERNAL = re.compile(r"^declare [^@\n]*@([-\w.$]+)|^@([-\w.$]+) = external", re.MULTILINE)


@record(frozen=True)
class Pipeline:
    """How a text is compiled: LLVM's speed level, vectorise runs of scalars, our own passes (for
    straight-line code, and whatever the fast code generator gets) or LLVM's, the code generator's
    level; in straight-line code, whether values are numbered; in loops, whether addresses are
    counted up instead of computed (LLVM's loop strength reduction)."""

    level: int
    slp: bool
    straight: bool
    codegen: int
    numbered: bool = True
    reduced: bool = True


@record(frozen=True)
class Timings:
    """Seconds spent in each step."""

    parse: float = 0.0
    optimise: float = 0.0
    codegen: float = 0.0
    link: float = 0.0

    @property
    def total(self) -> float:
        return self.parse + self.optimise + self.codegen + self.link


class Module:
    """Machine code in memory, for as long as this object lives."""

    def __init__(
        self, library: Any, object_code: bytes, exports: tuple[str, ...], text: str, level: int
    ) -> None:
        self._library = library
        _libraries[weakref.ref(self, _gone.append)] = library
        self._level = level
        self.object_code = object_code
        self.exports = exports
        self.text = text
        self.timings = Timings()

    def address(self, name: str) -> int:
        """Where the exported function or variable is."""
        if name not in self.exports:
            raise CompileError(f"no symbol {name!r} in this module; it has {self.exports}")
        return int(self._library[name])

    @functools.cached_property
    def llvm(self) -> str:
        """The optimised IR (made again when asked for: keeping it would cost every compile)."""
        return _locked(lambda: str(_optimised(self.text, self._pipeline()).module))

    @functools.cached_property
    def asm(self) -> str:
        """The assembly text (made again when asked for)."""
        return _locked(lambda: _assembly(self.text, self._pipeline()))

    def _pipeline(self) -> Pipeline:
        if not self.text:
            raise CompileError("this module was loaded from an object file without its text")
        return pipeline(self.text, self._level)

    def __repr__(self) -> str:
        return f"<Module {', '.join(self.exports)}: {len(self.object_code)} bytes>"


def compile_module(
    text: str, *, level: int = OPTIMISED, symbols: Mapping[str, int] | None = None
) -> Module:
    """Parse, optimise and load IR text; `symbols` gives the addresses of its external names.

    QUICK is for code that calls and branches more than it computes: it takes a fifth of the time,
    for the optimising code generator needs a millisecond for the least of functions. ONCE and
    HURRIED are for code that takes little of the time beside other modules: a few passes, once
    each; then the quick generator (what runs once in a call), or the other in a hurry (loops).
    """
    plan = pipeline(text, level)
    with LOCK:
        object_code, exports, timings = _object_code(text, plan)
        module = load(object_code, exports, symbols=symbols, text=text, level=level)
    module.timings = replace(timings, link=module.timings.link)
    return module


def _object_code(text: str, plan: Pipeline) -> tuple[bytes, tuple[str, ...], Timings]:
    done = _optimised(text, plan)
    started = time.perf_counter()
    with _reducing(plan.reduced):
        object_code = bytes(_machine(plan.codegen).emit_object(done.module))
    exports = _exports(done.module)
    return object_code, exports, Timings(done.parse, done.optimise, time.perf_counter() - started)


def _assembly(text: str, plan: Pipeline) -> str:
    done = _optimised(text, plan)
    with _reducing(plan.reduced):
        return str(_machine(plan.codegen).emit_assembly(done.module))


@contextmanager
def _reducing(reduced: bool) -> Iterator[None]:
    """LLVM has one switch for all: it is as others expect it when nobody holds the lock. An option
    that it does not know would end the process."""
    if reduced or llvm.llvm_version_info[0] > _KNOWN_LLVM:
        yield
        return
    llvm.set_option("tracker", "-disable-lsr=true")
    try:
        yield
    finally:
        llvm.set_option("tracker", "-disable-lsr=false")


def export_object(functions: Mapping[str, Iterable[str]], native: bool) -> bytes:
    """An object file of C functions, each with the texts of its modules; all else is internal.

    native: for this processor; otherwise for any that LLVM counts among the target's.
    """
    with LOCK:
        machine = _target().create_target_machine(
            cpu=llvm.get_host_cpu_name() if native else "",
            features=llvm.get_host_cpu_features().flatten() if native else "",
            opt=3,
            reloc="pic",
            codemodel="default",
        )
        whole = None
        for name, texts in functions.items():
            module = _linked(texts, name)
            if whole is None:
                whole = module
            else:
                whole.link_in(module)
        assert whole is not None
        whole.triple, whole.data_layout = machine.triple, str(machine.target_data)
        _optimise(whole, machine, Pipeline(3, True, False, 3))
        return bytes(machine.emit_object(whole))


def _linked(texts: Iterable[str], public: str) -> Any:
    """One module of several, of which one function is seen from outside."""
    first, *others = map(llvm.parse_assembly, texts)
    for other in others:
        first.link_in(other)
    for function in first.functions:
        if not function.is_declaration and function.name != public:
            function.linkage = llvm.Linkage.internal
    first.verify()
    return first


def load(
    object_code: bytes,
    exports: Iterable[str],
    *,
    symbols: Mapping[str, int] | None = None,
    text: str = "",
    level: int = OPTIMISED,
) -> Module:
    """Link an object file that `compile_module` made (see `Module.object_code`), maybe long ago."""
    names = tuple(exports)
    with LOCK:
        started = time.perf_counter()
        _free()
        library = _linked_library(object_code, names, symbols or {}, text)
        module = Module(library, object_code, names, text, level)
        module.timings = Timings(link=time.perf_counter() - started)
    return module


def _free() -> None:
    """Free the machine code of modules that are gone; the caller holds the lock."""
    while _gone:
        _libraries.pop(_gone.popleft()).close()


def _linked_library(
    object_code: bytes, names: Iterable[str], symbols: Mapping[str, int], text: str
) -> Any:
    builder = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    try:
        return builder.link(_LINKERS.next(), f"tracker.{next(_NAMES)}")
    except RecursionError:  # which is a RuntimeError, and none of LLVM's
        raise
    except RuntimeError as error:
        lost = _unbound(text, symbols)
        reason = f"no address for {', '.join(lost)}" if lost else str(error).strip()
        raise CompileError(f"linking failed: {reason}") from None


def pipeline(text: str, level: int) -> Pipeline:
    """The pipeline for a text: LLVM's own where there are loops, which looks for vectors in
    straight-line code unless a block is too long for that; else ours."""
    numbered = (
        text.count("  store ") + text.count("  call void @") <= NUMBERED_WRITES
        and _most_loops(text) <= NUMBERED_LOOPS
    )
    if level in (ONCE, HURRIED):
        return Pipeline(1, slp=False, straight=True, codegen=level - 1, numbered=numbered)
    longest = longest_block(text)
    long = longest > STRAIGHT_LINES or longest_function(text) > BRANCHING_LINES
    straight = _PHI not in text
    codegen = _codegen(text, level, longest, long and straight)
    return Pipeline(
        level=level,
        slp=level >= 2 and not straight and longest <= SLP_LINES,
        straight=straight or not codegen,
        codegen=codegen,
        numbered=numbered,
        reduced=straight or not codegen or longest <= REDUCED_LINES,
    )


def _codegen(text: str, level: int, longest: int, long: bool) -> int:
    """`long`: straight-line code beyond the bounds."""
    if longest > FAST_CODEGEN_LINES or (long and _mostly_calls(text)):
        return 0
    return min(level, 1) if long else level


def _mostly_calls(text: str) -> bool:
    """Whether straight-line code mainly calls loops and BLAS: then its own quality hardly matters,
    and the optimising code generator is 20 times slower on it than the fast one."""
    return text.count("  call void @") * CALL_LINES > text.count(" = f") + text.count(" = select")


def longest_function(text: str) -> int:
    """Lines in the longest function."""
    return max((text.count("\n", *span) for span in _functions(text)), default=0)


def _most_loops(text: str) -> int:
    """Loops in the function that has most of them: kernels count in a phi, the loops of `control`
    in memory."""
    marks = (_PHI, "\nloop.", "\nwhile.")
    counts = (sum(text.count(mark, *span) for mark in marks) for span in _functions(text))
    return max(counts, default=0)


def _functions(text: str) -> Iterator[tuple[int, int]]:
    """Where the functions lie in a text."""
    at = 0
    while (end := text.find(_FUNCTION_END, at)) >= 0:
        yield at, end + 1
        at = end + len(_FUNCTION_END)


def longest_block(text: str) -> int:
    """Lines in the longest basic block."""
    at, longest = 0, 0
    for end in _BLOCK_END.finditer(text):
        longest = max(longest, text.count("\n", at, end.start() + 1))
        at = end.end()
    return longest


@functools.cache
def host() -> str:
    """Processor, its features and LLVM's version: what an object file is valid for."""
    features = llvm.get_host_cpu_features().flatten()
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{llvm.get_default_triple()} {llvm.get_host_cpu_name()} {features} llvm-{version}"


@record(frozen=True)
class _Optimised:
    module: Any
    parse: float
    optimise: float


def _optimised(text: str, plan: Pipeline) -> _Optimised:
    started = time.perf_counter()
    machine = _machine(plan.codegen)
    if not plan.codegen:
        text = known_to_it(text, longest_block(text) > STRAIGHT_LINES)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RecursionError:
        raise
    except RuntimeError as error:
        raise CompileError(_explain(str(error), text)) from None
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    parsed = time.perf_counter()
    _optimise(module, machine, plan)
    return _Optimised(module, parsed - started, time.perf_counter() - parsed)


def _optimise(module: Any, machine: Any, plan: Pipeline) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=plan.level)
    options.loop_vectorization = plan.level >= 2
    options.slp_vectorization = plan.slp
    builder = llvm.create_pass_builder(machine, options)
    if plan.straight and plan.level > 0:
        passes = _straight_passes(plan.numbered)
    else:
        passes = builder.getModulePassManager()
        passes.add_global_dead_code_eliminate_pass()  # level 0 keeps what nobody calls
    try:
        passes.run(module, builder)
    finally:  # llvmlite's class does not: the first of its bases hides the other's method
        NewPassManager._dispose(passes)
        passes.detach()


def _straight_passes(numbered: bool) -> Any:
    """What pays for straight-line code, each pass once: a third of the time of LLVM's own pipeline
    for the least of functions, and a ninth for 700 lines. Not InstCombine: it looks six levels up
    from every instruction, 7 us each, and finds little that our own passes have left. Nor dead
    stores: where arrays are written in place, looking for them takes longer than all the rest.
    Numbering values is worth a quarter of the run time, and 0.5 s at NUMBERED_WRITES."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    if numbered:
        passes.add_new_gvn_pass()
    passes.add_aggressive_dce_pass()
    return passes


def _exports(module: Any) -> tuple[str, ...]:
    things = itertools.chain(module.functions, module.global_variables)
    return tuple(
        thing.name
        for thing in things
        if not thing.is_declaration and thing.linkage == llvm.Linkage.external
    )


@once
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@once
def _machine(level: int) -> Any:
    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


class _Linkers:
    """Where new libraries go. JITLink reaches far symbols through stubs, and gives memory back when
    a library goes, but for 10 kB that go with the linker: each linker takes _SHARE libraries, and
    goes when the last of them does. At interpreter exit llvmlite disposes of nothing, so types and
    functions that outlive this file still work."""

    def __init__(self) -> None:
        self._linker: Any = None
        self._taken = 0

    def next(self) -> Any:
        """The linker of one more library; the caller holds the lock."""
        if self._taken % _SHARE == 0:
            self._linker = llvm.create_lljit_compiler(
                _machine(2), use_jit_link=True, suppress_errors=True
            )
        self._taken += 1
        return self._linker


_LINKERS = _Linkers()


def _locked(work: Callable[[], _Result]) -> _Result:
    with LOCK:
        return work()


def _explain(error: str, text: str) -> str:
    """LLVM's message with the lines of IR around the place it points at."""
    place = _POSITION.search(error)
    if place is None:
        return f"LLVM refused the IR: {error.strip()}"
    first = next(line for line in error.splitlines() if _POSITION.search(line))
    number = int(place.group(1))
    lines = text.splitlines()
    near = range(max(1, number - 2), min(len(lines), number + 2) + 1)
    window = "\n".join(f"{'>' if at == number else ' '} {at:5} {lines[at - 1]}" for at in near)
    return f"LLVM refused the IR: {first}\n{window}"


def _unbound(text: str, symbols: Mapping[str, int]) -> list[str]:
    """External names of a text that nothing defines."""
    names = {a or b for a, b in _EXTERNAL.findall(text)} - set(symbols)
    return sorted(
        name
        for name in names
        if not name.startswith("llvm.") and llvm.address_of_symbol(name) is None
    )


# A child of fork must find the locks free and LLVM between two calls. llvmlite has a lock of its
# own, which finalisers take without ours.
_LLVMLITE: Any = llvm.ffi.lib._lock


def _before_fork() -> None:
    LOCK.acquire()
    _LLVMLITE.__enter__()


def _after_fork() -> None:
    _LLVMLITE.__exit__(None, None, None)
    LOCK.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
