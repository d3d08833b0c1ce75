"""Which kernels share a module.

LLVM's passes are chosen for a module, by its longest functions, so long kernels are apart, and so
is a long driver. Routines (sorting, selection, search) have modules of their own, compiled once for
all programs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit import vmath
from tracker.jit.codegen.artifact import KernelModule
from tracker.jit.codegen.kernel_dedupe import KernelText
from tracker.jit.llvm.engine import is_long
from tracker.jit.scalar.real import module_text
from tracker.jit.scalar.values import ModuleNeeds


def routine_modules(needs: ModuleNeeds) -> tuple[KernelModule, ...]:
    """Modules of the routines that the code calls. A routine has many loops and takes LLVM longer
    than the rest of most programs; a driver without loops goes through fewer passes, which stay
    linear when it is long."""
    modules = []
    for name, routine in sorted(needs.routines.items()):
        own = ModuleNeeds()
        own.intrinsics = {*routine.parts, routine.text}
        needs.intrinsics.add(routine.declaration)
        modules.append(KernelModule(module_text((), own), (name,)))
    return tuple(modules)


def kernel_modules(kernels: Sequence[KernelText], needs: ModuleNeeds) -> tuple[KernelModule, ...]:
    """Modules of the short kernels and of the long ones. `needs` keeps what a driver that calls
    them needs."""
    math, needs.math = needs.math, set()
    general_calls, needs.general_calls = needs.general_calls, set()
    intrinsics = needs.intrinsics
    needs.intrinsics = intrinsics | {kernel.declaration for kernel in kernels}
    modules = []
    groups: dict[bool, list[KernelText]] = {}
    for kernel in kernels:
        groups.setdefault(is_long(kernel.text), []).append(kernel)
    for _, group in sorted(groups.items()):
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
        modules.append(KernelModule(module_text(texts, own_needs), exports))
    return tuple(modules)
