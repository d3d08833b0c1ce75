"""The optimisation level of each kernel: kernels worth optimising become a module of their own.

Optimising takes 10 to 40 ms for the smallest loop nest; quick code takes a fifth of that, for loops
that run two to four times slower. In a plan that runs long, the parts that take a negligible share
of its time stay quick code: the driver, and loops over few elements.

Invariants: the choice follows from the plan, and from the choice made for another shape of the same
plan, whose code may exist already; a short plan is compiled as one module, with all optimisations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from tracker.jit import vmath
from tracker.jit.codegen.artifact import KernelModule
from tracker.jit.codegen.kernel_dedupe import KernelText
from tracker.jit.llvm.engine import OPTIMISED, QUICK, is_long
from tracker.jit.scalar.real import module_text
from tracker.jit.scalar.values import ModuleNeeds
from tracker.support.structs import record

_LONG_PLAN = 1_000_000  # operations, about 100 us
_NEGLIGIBLE_SHARE = 1000  # operations of the plan per unoptimised element: 2% of the time
_TOLERABLE_SHARE = 250  # 8% of the time: tolerable if the unoptimised code exists already
_SHORT_PLAN = 100_000  # operations; the driver of a shorter plan is optimised, too
_OPERATIONS_PER_ELEMENT = 10  # operations that count as one unoptimised element
_MAX_CHOICES = 1000  # choices kept
_DIGITS = b"0123456789ABCDEF"
_choices: dict[int, set[str] | None] = {}  # by the hash of the texts without digits


@record()
class KernelWork:
    """What a kernel does: for how many elements, and about how many operations in all."""

    elements: int = 0
    operations: int = 0

    @property
    def count(self) -> int:
        """Its elements; as many as its operations are worth, if an element takes many."""
        return (
            max(self.elements, self.operations // _OPERATIONS_PER_ELEMENT) if self.elements else 0
        )

    def add(self, elements: int, operations: int) -> None:
        self.elements += elements
        self.operations += operations


def routine_modules(needs: ModuleNeeds) -> tuple[KernelModule, ...]:
    """Modules of the routines that the code calls (sorting, selection, search), compiled once for
    all programs. A routine has many loops and takes LLVM longer than the rest of most programs; a
    driver without loops goes through fewer passes, which stay linear when it is long."""
    modules = []
    for name, routine in sorted(needs.routines.items()):
        own = ModuleNeeds()
        own.intrinsics = {*routine.parts, routine.text}
        needs.intrinsics.add(routine.declaration)
        modules.append(KernelModule(module_text((), own), (name,), OPTIMISED, ()))
    return tuple(modules)


def kernels_to_optimise(
    kernels: Mapping[str, KernelWork], other_operations: int, allowance: int | None = None
) -> set[str] | None:
    """The kernels, by name, that are worth optimising; None: all.

    elsewhere: operations outside of kernels. In quick code an element takes as long as some twenty
    vectorised operations, or three times as long as it would.
    """
    total = sum(work.operations for work in kernels.values()) + other_operations
    if total < _LONG_PLAN:
        return None
    return kernels.keys() - _negligible(kernels, total // (allowance or _NEGLIGIBLE_SHARE))


def _negligible(kernels: Mapping[str, KernelWork], elements: int) -> set[str]:
    """The kernels over the fewest elements, with at most `elements` in all; an element of many
    operations counts as several."""
    names = set()
    counts = {name: work.count for name, work in kernels.items()}
    for name in sorted(kernels, key=counts.__getitem__):
        elements -= counts[name]
        if elements < 0:
            break
        names.add(name)
    return names


def merge_work(kernels: MutableMapping[str, KernelWork], same: Mapping[str, str]) -> None:
    """Add the work of merged kernels to that of the kernels that replace them."""
    for merged, kernel in same.items():
        if merged != kernel:
            work = kernels.pop(merged)
            kernels[kernel].add(work.elements, work.operations)


def hot_kernels(kernels: Mapping[str, KernelWork], other_operations: int) -> set[str] | None:
    """The kernels that are optimised even if unoptimised code exists; None: all."""
    return kernels_to_optimise(kernels, other_operations, _TOLERABLE_SHARE)


def reuse_choice(
    texts: Iterable[str],
    chosen: set[str] | None,
    kernels: Mapping[str, KernelWork],
    other_operations: int,
) -> set[str] | None:
    """The choice made for another shape of these texts, if it suffices for this shape, so that
    nothing need be compiled again: everything was optimised, or what was not is negligible here."""
    key = hash(tuple(text.encode().translate(None, _DIGITS) for text in texts))
    earlier = _choices.get(key, chosen)
    if earlier != chosen and earlier is not None:
        total = sum(work.operations for work in kernels.values()) + other_operations
        negligible = _negligible(kernels, total // _TOLERABLE_SHARE)
        if total < _SHORT_PLAN or not kernels.keys() - negligible <= earlier:
            earlier = chosen
    _choices[key] = earlier
    while len(_choices) > _MAX_CHOICES:
        _choices.pop(next(iter(_choices), 0), None)
    return earlier


def split_modules(
    kernels: Sequence[KernelText],
    chosen: set[str] | None,
    hot_names: set[str] | None,
    needs: ModuleNeeds,
) -> tuple[KernelModule, ...]:
    """Modules of the kernels that are optimised (None: all), and of the others; LLVM's pipeline is
    chosen for a module, so long kernels are apart. `needs` keeps what a driver that calls them
    needs."""
    math, needs.math = needs.math, set()
    general_calls, needs.general_calls = needs.general_calls, set()
    intrinsics = needs.intrinsics
    needs.intrinsics = intrinsics | {kernel.declaration for kernel in kernels}
    modules = []
    groups: dict[tuple[int, bool], list[KernelText]] = {}
    for kernel in kernels:
        level = OPTIMISED if chosen is None or kernel.name in chosen else QUICK
        groups.setdefault((level, is_long(kernel.text)), []).append(kernel)
    for (level, _), group in sorted(groups.items(), reverse=True):
        texts = [f"define {kernel.text}" for kernel in group]
        own_needs = ModuleNeeds()
        own_needs.ufunc_loops, own_needs.intrinsics = needs.ufunc_loops, intrinsics
        own_needs.math = {f for f in math if any(f"{vmath.symbol(*f)}(" in text for text in texts)}
        own_needs.general_calls = {
            f
            for f in general_calls
            if any(f"{vmath.general_symbol(*f)}(" in text for text in texts)
        }
        exports = tuple(kernel.name[1:] for kernel in group)
        hot = tuple(
            kernel.name[1:] for kernel in group if hot_names is None or kernel.name in hot_names
        )
        modules.append(KernelModule(module_text(texts, own_needs), exports, level, hot))
    return tuple(modules)
