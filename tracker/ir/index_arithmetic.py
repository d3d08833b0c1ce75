"""Arithmetic of canonical basic indices: one entry per axis, and None
(`ops/indexing/canonical.py`).
"""

from __future__ import annotations

from typing import Any


def compose_indices(
    outer: tuple[Any, ...], inner: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[Any, ...] | None:
    """The index k with x[k] = x[outer][inner], for an x of this shape.

    None if there is no such index: `inner` removes an axis that `outer` added, or selects nothing.
    """
    entries = iter(inner)
    extents = iter(shape)
    found: list[Any] = []

    def following() -> Any:
        """The entry of `inner` for the next axis of x[outer]; its new axes come before."""
        for entry in entries:
            if entry is not None:
                return entry
            found.append(None)
        raise AssertionError("a canonical index has an entry for each axis")

    for outer_entry in outer:
        if outer_entry is None:
            entry = following()
            if isinstance(entry, int):
                continue
            if len(range(*entry.indices(1))) != 1:
                return None
            found.append(None)
        elif isinstance(outer_entry, slice):
            extent = next(extents)
            covered = range(*outer_entry.indices(extent))
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
            found.append(outer_entry)
    found.extend(entries)  # axes of extent 1
    return tuple(found)


def relative_index(
    outer: tuple[Any, ...], inner: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[Any, ...] | None:
    """The index k with x[inner] = x[outer][k], for an x of this shape.

    None if x[outer] does not have all of x[inner], or if one of them adds an axis.
    """
    if not len(outer) == len(inner) == len(shape):
        return None
    found: list[Any] = []
    for have, want, extent in zip(outer, inner, shape, strict=True):
        if not isinstance(have, slice):
            if have != want:
                return None
            continue
        covered = range(*have.indices(extent))
        if not isinstance(want, slice):
            if want not in covered:
                return None
            found.append(covered.index(want))
            continue
        wanted = range(*want.indices(extent))
        if not wanted or wanted[0] not in covered or wanted[-1] not in covered:
            return None
        if len(wanted) > 1 and wanted.step % covered.step:
            return None
        first, last = covered.index(wanted[0]), covered.index(wanted[-1])
        step = wanted.step // covered.step if len(wanted) > 1 else 1
        stop = last + (1 if step > 0 else -1)
        found.append(slice(first, None if stop < 0 else stop, step))
    return tuple(found)
