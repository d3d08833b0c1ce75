"""Modules for routines: sorting, selection and search, compiled once for all programs.

A routine (`jit/kernels/sort.py`, `selection.py`, `binary_search.py`) has many loops and takes LLVM
longer than the rest of most programs. In a module of its own, compiled code is found again for
every program; and a driver without loops goes through fewer passes, which stay linear when it is
long.

Invariant: a routine is moved with everything that it calls, if that is text or an LLVM intrinsic;
functions to be inlined stay with their callers.
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
    """Modules of the routines that these texts call. `needs` keeps what the texts need then."""
    texts = _RoutineTexts(needs.intrinsics)
    if not texts.definitions:
        return ()
    called = {name for caller in callers for name in _CALLED.findall(caller)}
    extracted = [
        name for name in sorted(called & texts.definitions.keys()) if texts.is_separable(name)
    ]
    kept = texts.closure(called.difference(extracted))
    needs.intrinsics = {
        *texts.declarations,
        *(texts.definitions[name] for name in kept & texts.definitions.keys()),
        *(texts.declaration(name) for name in extracted),
    }
    return tuple([texts.module(name) for name in extracted])


class _RoutineTexts:
    """`of`: the text that defines each name; `others`: declarations."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.definitions: dict[str, str] = {}
        self.declarations: set[str] = set()
        for text in texts:
            names = [found[2] for found in _HEAD.finditer(text)]
            self.definitions.update(dict.fromkeys(names, text))
            if not names:
                self.declarations.add(text)

    def closure(self, names: Iterable[str]) -> set[str]:
        """The names, and everything that their texts call."""
        closure: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in closure:
                closure.add(name)
                todo += _CALLED.findall(self.definitions.get(name, ""))
        return closure

    def is_separable(self, name: str) -> bool:
        """Whether a routine can be in another module: not inlined, and complete."""
        head = self.head(name)
        names = self.closure([name])
        is_complete = all(n in self.definitions or n.startswith(_INTRINSIC_PREFIX) for n in names)
        return is_complete and "noinline" in head[4]

    def head(self, name: str) -> re.Match[str]:
        return next(found for found in _HEAD.finditer(self.definitions[name]) if found[2] == name)

    def declaration(self, name: str) -> str:
        """The declaration of a routine for another module."""
        head = self.head(name)
        return f"declare {head[1]}@{name}({_PARAMETER.sub('', ' '.join(head[3].split()))})"

    def module(self, name: str) -> KernelModule:
        """A module that exports a routine, with everything that it calls."""
        names = self.closure([name])
        needs = ModuleNeeds()
        needs.intrinsics = {
            text for text in self.declarations if names & set(_CALLED.findall(text))
        }
        needs.intrinsics |= {self.definitions[n] for n in names & self.definitions.keys()}
        head = self.head(name)[0]
        text = module_text((), needs).replace(head, head.replace("define internal", "define", 1))
        return KernelModule(text, (name,), OPTIMISED, ())
