"""Routines that a driver calls, as modules of their own.

Owns: `extract_routines`. What sorts, chooses or searches is one routine for all programs
(`jit/kernels/sort.py`, `jit/kernels/selection.py`, `jit/kernels/binary_search.py`), of many loops,
which takes LLVM longer than the rest of most programs. In a module of its own it is compiled once
for all of them; and a driver without loops goes through quicker passes, which do not take more than
linear time when it is long.

Invariant: a routine is taken out with all that it calls, if that is text, too, or the processor's;
what is to be inlined stays where it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracker.jit.codegen.artifact import KernelModule
from tracker.jit.llvm.engine import OPTIMISED
from tracker.jit.scalar.real import module_text
from tracker.jit.scalar.values import ModuleNeeds

_HEAD = re.compile(r"^define internal ([^@\n]*)@([\w.]+)\(([^)]*)\)([^{]*)\{", re.MULTILINE)
_CALLED = re.compile(r"@([\w.]+)\(")
_PARAMETER = re.compile(r" %[\w.]+")
_INTRINSIC_PREFIX = "llvm."


def extract_routines(needs: ModuleNeeds, callers: Sequence[str]) -> tuple[KernelModule, ...]:
    """Modules of the routines that these texts call. What is left in `needs` is what the texts
    need then."""
    texts = _RoutineTexts(needs.intrinsics)
    if not texts.of:
        return ()
    called = {name for caller in callers for name in _CALLED.findall(caller)}
    moved = [name for name in sorted(called & texts.of.keys()) if texts.is_separable(name)]
    kept = texts.closure(called.difference(moved))
    needs.intrinsics = {
        *texts.others,
        *(texts.of[name] for name in kept & texts.of.keys()),
        *(texts.declaration(name) for name in moved),
    }
    return tuple([texts.module(name) for name in moved])


class _RoutineTexts:
    """`of`: the text that defines each name; `others`: declarations."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.of: dict[str, str] = {}
        self.others: set[str] = set()
        for text in texts:
            names = [found[2] for found in _HEAD.finditer(text)]
            self.of.update(dict.fromkeys(names, text))
            if not names:
                self.others.add(text)

    def closure(self, names: Iterable[str]) -> set[str]:
        """The names, and what their texts call, and so on."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += _CALLED.findall(self.of.get(name, ""))
        return found

    def is_separable(self, name: str) -> bool:
        """Whether a routine can be in another module: it is not inlined, and needs no more."""
        head = self.head(name)
        names = self.closure([name])
        whole = all(n in self.of or n.startswith(_INTRINSIC_PREFIX) for n in names)
        return whole and "noinline" in head[4]

    def head(self, name: str) -> re.Match[str]:
        return next(found for found in _HEAD.finditer(self.of[name]) if found[2] == name)

    def declaration(self, name: str) -> str:
        """How another module declares a routine."""
        head = self.head(name)
        return f"declare {head[1]}@{name}({_PARAMETER.sub('', ' '.join(head[3].split()))})"

    def module(self, name: str) -> KernelModule:
        """A routine, which others can call, and what it calls."""
        names = self.closure([name])
        own = ModuleNeeds()
        own.intrinsics = {text for text in self.others if names & set(_CALLED.findall(text))}
        own.intrinsics |= {self.of[n] for n in names & self.of.keys()}
        head = self.head(name)[0]
        text = module_text((), own).replace(head, head.replace("define internal", "define", 1))
        return KernelModule(text, (name,), OPTIMISED, ())
