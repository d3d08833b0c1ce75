"""The prologue and the epilogues of a plan's function: its scratch memory, and the rollback log of
random draws.

- Up to 4 KiB of scratch is on the stack, more comes from `PyMem_RawMalloc`, much from memory that
  is kept between calls (`jit/runtime/allocator.py`).
- A plan with effects opens a log before the first of them, if a guard follows; at each exit the log
  is closed, and the draws are rolled back if the guard failed, because another trace draws these
  numbers again. The functions are in `jit/kernels/python_callbacks.py`.

Invariant: another shape of a program that has loops gives the same text. So the plan itself
compares the size with the stack limit, the size is a relocatable number
(`jit/llvm/size_parameters.py`), the allocator is bound at link time, and no buffer has offset 0,
which the text would show.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracker.jit.runtime import allocator
from tracker.jit.scalar.values import ModuleNeeds
from tracker.jit.schedule.buffer_allocation import ALIGNMENT

_ON_STACK = 4096  # bytes; the stack buffer has this size in all cases
_DECLARED = {"declare noalias ptr @tk.take(i64)", "declare void @tk.give(ptr, i64)"}
OPEN, CLOSE = "tk.callback.begin", "tk.callback.finish"


class ScratchCode:
    """The lines for `size` bytes; `varies`: another shape may need more or less."""

    def __init__(self, size: int, varies: bool, needs: ModuleNeeds, symbols: set[str]) -> None:
        self.margin = ALIGNMENT if varies and size else 0  # added to all offsets
        self.size = size + self.margin
        self.is_on_stack = not varies and size <= _ON_STACK
        self.needs, self.symbols = needs, symbols

    def prologue(self) -> list[str]:
        """The lines that define `%scratch`."""
        if not self.size:
            return []
        room = f"alloca i8, i64 {_ON_STACK}, align 64"
        if self.is_on_stack:
            return [f"  %scratch = {room}"]
        self.symbols |= set(allocator.NAMES)
        self.needs.intrinsics |= _DECLARED
        return [
            f"  %scratch.room = {room}",
            "  %scratch.cell = alloca ptr, align 8",
            "  store ptr %scratch.room, ptr %scratch.cell, align 8",
            f"  %scratch.much = icmp ugt i64 {self.size}, {_ON_STACK}",
            "  br i1 %scratch.much, label %scratch.take, label %scratch.taken",
            "scratch.take:",
            f"  %scratch.made = call ptr @tk.take(i64 {self.size})",
            "  store ptr %scratch.made, ptr %scratch.cell, align 8",
            "  br label %scratch.taken",
            "scratch.taken:",
            "  %scratch = load ptr, ptr %scratch.cell, align 8",
        ]

    def epilogue(self, way: str) -> list[str]:
        """The lines that free it; `way` names this exit of the function."""
        if not self.size or self.is_on_stack:
            return []
        return [  # volatile, so that LLVM does not duplicate the code for the two cases
            f"  %{way}.scratch = load volatile ptr, ptr %scratch.cell, align 8",
            f"  %{way}.much = icmp ne ptr %{way}.scratch, %scratch.room",
            f"  br i1 %{way}.much, label %{way}.give, label %{way}.given",
            f"{way}.give:",
            f"  call void @tk.give(ptr %{way}.scratch, i64 {self.size})",
            f"  br label %{way}.given",
            f"{way}.given:",
        ]


class JournalCode:
    """The lines for a function whose first effect is after line `first_effect` (None: it has no
    effects) and is undone by a failure from line `first_undone` on. Draws of bodies are in the log,
    too."""

    def __init__(
        self, lines: list[str], first_effect: int | None, first_undone: int | None
    ) -> None:
        fails = any("label %fail" in line for line in lines[first_undone:])
        self.is_needed = first_effect is not None and fails
        if first_effect is not None and fails:
            lines[first_effect:first_effect] = [
                f"  %journal.new = call ptr @{OPEN}(ptr @callback.begin)",
                "  store ptr %journal.new, ptr %journal, align 8",
            ]

    @property
    def allocation(self) -> Sequence[str]:
        """The lines at the start of the function."""
        if not self.is_needed:
            return ()
        return ("  %journal = alloca ptr, align 8", "  store ptr null, ptr %journal, align 8")

    def close(self, fails: bool) -> Sequence[str]:
        """The line at an exit of the function."""
        if not self.is_needed:
            return ()
        return (f"  call void @{CLOSE}(ptr @callback.finish, ptr %journal, i64 {fails:d})",)
