"""The rollback log of random draws, at the entry and the exits of a plan.

A plan with effects opens a log before the first of them, if a guard follows; at each exit the log
is closed, and the draws are rolled back if the guard failed, because another trace draws these
numbers again. The functions are in `jit/kernels/python_callbacks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

OPEN, CLOSE = "tk.callback.begin", "tk.callback.finish"


class JournalCode:
    """The lines for a function whose first effect is before line `first_effect` (None: it has no
    effects). Draws of bodies are in the log, too."""

    def __init__(self, lines: list[str], first_effect: int | None) -> None:
        fails = any("label %fail" in line for line in lines[first_effect:])
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
