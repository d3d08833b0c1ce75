"""Kernels as modules: those that differ only in constants become one, and which share a module.

A Python loop over rows of different lengths (`L[i, :i] @ x[:i]`), or with constants of its own
(`y[i] = i * x[i:i+9]`), gives a loop nest for each step, equal but for extents, offsets and
factors. Compiled one by one they would take seconds: `deduplicate` makes one of them, with
parameters.

LLVM's passes are chosen for a module, by its longest functions, so long kernels are apart, and so
is a long driver. Routines (sorting, selection, search) have modules of their own, compiled once for
all programs.

Invariants: kernels are merged only where there are many of a kind, because a loop with literal
constants is faster; divisors stay literal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tracker.jit import vmath
from tracker.jit.codegen.artifact import KernelModule
from tracker.jit.llvm.engine import is_long
from tracker.jit.scalar.real import module_text
from tracker.jit.scalar.values import ModuleNeeds
from tracker.support.structs import record

_MAX_ALIKE = 4  # kernels that differ in literals only and are not merged
_NUMBER = (
    r"(= (?:icmp \w+|(?:add|sub|mul|shl)(?: nuw| nsw)*) i64 [^\n,]+, "
    r"|= getelementptr [^\n]*, i64 |= phi i64 \[ "
    r"|= f(?:add|sub|mul|div|cmp)[a-z ]* (?:double|float) (?:%[\w.]+, )?)"
    r"(-?\d+|0x[0-9A-F]{16})(?=$|, %)"
)
_FLOAT = re.compile("double|float")
_CALL = r"call void (@k\d+)\(([^()\n]*)\)"


@record(frozen=True)
class KernelText:
    """The function of a kernel: its text after `define`, and its declaration for other modules."""

    name: str
    text: str
    declaration: str


MergedKernels = Mapping[
    str, tuple[str, tuple[str, ...]]
]  # kernel -> (what to call instead, literals)


def deduplicate(kernels: Sequence[KernelText]) -> tuple[list[KernelText], MergedKernels]:
    """The remaining kernels, and what to call instead of the others."""
    lengths = Counter(kernel.text.count("\n") for kernel in kernels)
    if max(lengths.values(), default=0) <= _MAX_ALIKE:
        return list(kernels), {}
    number = re.compile(_NUMBER, re.MULTILINE)
    groups: dict[str, list[tuple[KernelText, list[str]]]] = {}
    for kernel in kernels:
        pattern = number.sub(r"\1#", kernel.text.replace(f"{kernel.name}(", "@KERNEL("))
        numbers = [f"{_literal_type(found)} {found[2]}" for found in number.finditer(kernel.text)]
        groups.setdefault(pattern, []).append((kernel, numbers))
    kept: list[KernelText] = []
    merged: dict[str, tuple[str, tuple[str, ...]]] = {}
    for group in groups.values():
        first = group[0][0]
        if len(group) <= _MAX_ALIKE or first.name.endswith(".task"):
            kept += [kernel for kernel, _ in group]
            continue
        columns = list(zip(*(numbers for _, numbers in group), strict=True))
        varying = [at for at, column in enumerate(columns) if len(set(column)) > 1]
        kept.append(_parametrise(first, {at: columns[at][0].split()[0] for at in varying}))
        for kernel, numbers in group:
            merged[kernel.name] = first.name, tuple(numbers[at] for at in varying)
    return kept, merged


def _literal_type(match: re.Match[str]) -> str:
    """The LLVM type of a matched literal."""
    type = _FLOAT.search(match[1]) if match[2].startswith("0x") else None
    return "i64" if type is None else type[0]


def _parametrise(kernel: KernelText, varying: Mapping[int, str]) -> KernelText:
    """The kernel with some of its literals as further parameters, of the given types."""
    parameter = {at: f"%number{i}" for i, at in enumerate(varying)}
    seen = iter(range(kernel.text.count("\n") + 1))

    def put(match: re.Match[str]) -> str:
        return match[1] + parameter.get(next(seen), match[2])

    text = re.sub(_NUMBER, put, kernel.text, flags=re.MULTILINE)
    more = "".join(f", {kind} {parameter[at]}" for at, kind in varying.items())
    head, rest = text.split(") {\n", 1)
    kinds = "".join(f", {kind}" for kind in varying.values())
    declaration = f"{kernel.declaration[:-1]}{kinds})"
    return KernelText(kernel.name, f"{head}{more}) {{\n{rest}", declaration)


def redirect_calls(text: str, merged: MergedKernels) -> str:
    """A text with the calls of merged kernels redirected."""

    def call(match: re.Match[str]) -> str:
        target = merged.get(match[1])
        if target is None:
            return match[0]
        numbers = "".join(f", {number}" for number in target[1])
        return f"call void {target[0]}({match[2]}{numbers})"

    return re.sub(_CALL, call, text) if merged else text


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
