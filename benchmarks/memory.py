"""The process's own account of its memory (Linux; `getrusage` counts that of the parent, too)."""

from __future__ import annotations

from pathlib import Path


def status(name: str) -> float:
    """A line of the account, in bytes: VmRSS is what it has now, VmHWM the most that it had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))


def forget_peak() -> None:
    """VmHWM starts anew."""
    Path("/proc/self/clear_refs").write_text("5")
