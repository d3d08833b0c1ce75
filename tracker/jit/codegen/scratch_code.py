"""How a plan gets its scratch, and gives it back.

Owns: `ScratchCode`, the lines of both. Little scratch is on the stack, some is Python's raw memory,
much is taken from memory that is kept (`jit/runtime/allocator.py`).

Invariant: another shape of a program that has loops gives the same text: whether the stack will do
is asked when the plan runs, of a number that the text does not show
(`jit/llvm/relocatable_sizes.py`), whose memory it is otherwise is bound when it is linked, and no
buffer lies at an offset that the text would show.
"""

from __future__ import annotations

from tracker.jit.runtime import allocator
from tracker.jit.scalar.values import ModuleNeeds
from tracker.jit.schedule.buffer_allocation import ALIGNMENT

_ON_STACK = 4096  # bytes of scratch that go on the stack, the same for every size
_DECLARED = {"declare noalias ptr @tk.take(i64)", "declare void @tk.give(ptr, i64)"}


class ScratchCode:
    """The lines for `size` bytes; `varies`: another shape may need more or less."""

    def __init__(self, size: int, varies: bool, needs: ModuleNeeds, symbols: set[str]) -> None:
        self.margin = ALIGNMENT if varies and size else 0  # of all offsets
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
        """The lines that give it back; `way` names this way out of the function."""
        if not self.size or self.is_on_stack:
            return []
        return [  # a load that LLVM cannot see through: it writes no code twice for the two cases
            f"  %{way}.scratch = load volatile ptr, ptr %scratch.cell, align 8",
            f"  %{way}.much = icmp ne ptr %{way}.scratch, %scratch.room",
            f"  br i1 %{way}.much, label %{way}.give, label %{way}.given",
            f"{way}.give:",
            f"  call void @tk.give(ptr %{way}.scratch, i64 {self.size})",
            f"  br label %{way}.given",
            f"{way}.given:",
        ]
