"""Checks, in a native entry, of the conditions between leaves (`jit/guards/signature.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracker.jit.guards.signature import ArrayFlags, Condition
from tracker.jit.runtime.cpython_layout import FLAGS
from tracker.jit.runtime.entry_writer import EntryWriter


def emit_condition_checks(
    writer: EntryWriter,
    conditions: Iterable[Condition],
    leaves: Sequence[str],
    containers: Mapping[Any, str],
) -> None:
    """Check the conditions; `leaves` and `containers` are the registers of the objects."""
    for each in conditions:
        if isinstance(each, ArrayFlags):
            flags = writer.load("i32", leaves[each.leaf], FLAGS)
            masked = writer.let(f"and i32 {flags}, {each.mask}")
            writer.check(writer.equal("i32", masked, each.flags))
            continue
        found = [leaves[at] if isinstance(at, int) else containers[at] for at in each.members]
        if len(found) == 2:
            writer.check(writer.let(f"icmp ne ptr {found[0]}, {found[1]}"))
            continue
        table = writer.alloca(f"[{len(found)} x ptr]")
        for at, x in enumerate(found):
            writer.store("ptr", x, table, 8 * at)
        writer.check(writer.let(f"call i1 @native.distinct(ptr {table}, i64 {len(found)})"))
