"""Arithmetic of canonical basic indices: an entry per axis, and None; see
`ops/indexing/canonical.py`.

Owns: `compose_indices`.
"""

from __future__ import annotations

from typing import Any


def compose_indices(
    outer: tuple[Any, ...], inner: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[Any, ...] | None:
    """The index k for which x[k] is x[outer][inner], of an x of this shape; None if there is none:
    where an axis that `outer` makes is left out by `inner`, or nothing is left of one."""
    entries = iter(inner)
    extents = iter(shape)
    found: list[Any] = []

    def following() -> Any:
        """The entry of `inner` for the next axis of x[outer]; axes that it makes come before."""
        for entry in entries:
            if entry is not None:
                return entry
            found.append(None)
        raise AssertionError("a canonical index has an entry for each axis")

    for part in outer:
        if part is None:
            entry = following()
            if isinstance(entry, int):
                continue
            if len(range(*entry.indices(1))) != 1:
                return None
            found.append(None)
        elif isinstance(part, slice):
            extent = next(extents)
            covered = range(*part.indices(extent))
            entry = following()
            if isinstance(entry, int):
                found.append(covered[entry])
                continue
            rest = covered[entry]
            if not rest:
                return None
            stop = min(rest.stop, extent)
            found.append(slice(rest.start, None if stop < 0 else stop, rest.step))
        else:
            next(extents)
            found.append(part)
    found.extend(entries)  # axes of extent 1
    return tuple(found)
