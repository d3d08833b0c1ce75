"""Which loops of a plan are worth optimising: these become a module of their own.

Owns: `KernelWork`, `kernels_to_optimise`, `urgent`, `reuse_choice` and `split_modules`. LLVM's
pipeline takes 10 to 40 ms for the least of loops, a few passes and a code generator in a hurry a
quarter of that, for loops that take two or three times as long; the quick code generator, for the
driver, a tenth. In a plan that runs long, what hardly shows is compiled so: the driver, and loops
over few elements.

Invariants: which loops these are follows from the plan, and from what was chosen for another shape
of it, whose code is there already; a plan that is over soon is compiled as one module, well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from tracker.jit import vmath
from tracker.jit.codegen.artifact import KernelModule
from tracker.jit.codegen.kernel_dedupe import KernelText
from tracker.jit.llvm.engine import FEW_PASSES, OPTIMISED
from tracker.jit.scalar.real import module_text
from tracker.jit.scalar.values import ModuleNeeds
from tracker.support.structs import record

_LONG_PLAN = 1_000_000  # operations of a plan, about as many as take 100 us
_NEGLIGIBLE_SHARE = (
    1000  # operations for each element that is not optimised: all of these take 2% then
)
_TOLERABLE_SHARE = (
    250  # and 8%: no reason to compile loops again that another shape has compiled in a hurry
)
_SHORT_PLAN = 100_000  # operations; a plan of fewer has a driver that is compiled well
_OPERATIONS_PER_ELEMENT = 10  # operations of an element that takes longer than others in a hurry
_MAX_CHOICES = 1000  # choices that are remembered
_DIGITS = b"0123456789ABCDEF"
_choices: dict[int, set[str] | None] = {}  # by a text without its numbers


@record()
class KernelWork:
    """What a loop does: for how many elements, and about how many operations in all."""

    elements: int = 0
    operations: int = 0

    @property
    def count(self) -> int:
        """As how many elements of few operations its elements count."""
        return (
            max(self.elements, self.operations // _OPERATIONS_PER_ELEMENT) if self.elements else 0
        )

    def add(self, elements: int, operations: int) -> None:
        self.elements += elements
        self.operations += operations


def kernels_to_optimise(
    loops: Mapping[str, KernelWork], elsewhere: int, allowance: int | None = None
) -> set[str] | None:
    """The loops, by name, that are to be optimised; None: everything is.

    elsewhere: the operations of what is not a loop. In a loop compiled in a hurry an element takes
    as long as some twenty operations that are vectorised, or three times as long as it would.
    """
    total = sum(work.operations for work in loops.values()) + elsewhere
    if total < _LONG_PLAN:
        return None
    return loops.keys() - _negligible(loops, total // (allowance or _NEGLIGIBLE_SHARE))


def _negligible(loops: Mapping[str, KernelWork], left: int) -> set[str]:
    """The loops over the fewest elements, up to so many of these in all; what takes long for each
    counts as many."""
    found = set()
    counts = {name: work.count for name, work in loops.items()}
    for name in sorted(loops, key=counts.__getitem__):
        left -= counts[name]
        if left < 0:
            break
        found.add(name)
    return found


def merge_work(loops: MutableMapping[str, KernelWork], same: Mapping[str, str]) -> None:
    """Count loops that are done by others with these."""
    for name, other in same.items():
        if name != other:
            work = loops.pop(name)
            loops[other].add(work.elements, work.operations)


def urgent(loops: Mapping[str, KernelWork], elsewhere: int) -> set[str] | None:
    """The loops that are optimised even where there is code of them that was not; None: all."""
    return kernels_to_optimise(loops, elsewhere, _TOLERABLE_SHARE)


def reuse_choice(
    texts: Iterable[str], chosen: set[str] | None, loops: Mapping[str, KernelWork], elsewhere: int
) -> set[str] | None:
    """What was chosen for another shape of these texts, if it will do for this one, too: nothing
    needs to be compiled again then. That is, all was optimised, or what was not hardly shows."""
    key = hash(tuple(text.encode().translate(None, _DIGITS) for text in texts))
    before = _choices.get(key, chosen)
    if before != chosen and before is not None:
        total = sum(work.operations for work in loops.values()) + elsewhere
        few = _negligible(loops, total // _TOLERABLE_SHARE)
        if total < _SHORT_PLAN or not loops.keys() - few <= before:
            before = chosen
    _choices[key] = before
    while len(_choices) > _MAX_CHOICES:
        _choices.pop(next(iter(_choices), 0), None)
    return before


def split_modules(
    kernels: Sequence[KernelText],
    chosen: set[str] | None,
    urgent: set[str] | None,
    needs: ModuleNeeds,
) -> tuple[KernelModule, ...]:
    """Modules of the kernels that are to be optimised (None: all), and of the others. What is left
    in `needs` is what a driver needs that calls them."""
    math, needs.math = needs.math, set()
    fars, needs.general_calls = needs.general_calls, set()
    intrinsics = needs.intrinsics
    needs.intrinsics = intrinsics | {kernel.declaration for kernel in kernels}
    modules = []
    for level in (OPTIMISED, FEW_PASSES):
        group = [
            kernel
            for kernel in kernels
            if (chosen is None or kernel.name in chosen) == (level == OPTIMISED)
        ]
        if not group:
            continue
        texts = [f"define {kernel.text}" for kernel in group]
        own = ModuleNeeds()
        own.ufunc_loops, own.intrinsics = needs.ufunc_loops, intrinsics
        own.math = {f for f in math if any(f"{vmath.symbol(*f)}(" in text for text in texts)}
        own.general_calls = {
            f for f in fars if any(f"{vmath.general_symbol(*f)}(" in text for text in texts)
        }
        exports = tuple(kernel.name[1:] for kernel in group)
        well = tuple(kernel.name[1:] for kernel in group if urgent is None or kernel.name in urgent)
        modules.append(KernelModule(module_text(texts, own), exports, level, well))
    return tuple(modules)
