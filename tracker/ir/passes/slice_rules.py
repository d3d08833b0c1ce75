"""Rewrite rules for reads and writes of slices, at basic indices.

`memory_ssa.py` knows which write a slice comes from; `ir/index_arithmetic.py` composes indices.

Invariant: exact, and every rewrite is one towards the earliest version of an array (see
`simplify.py` for termination).
"""

from __future__ import annotations

from typing import Any

from tracker.ir.graph import Atom, Eqn
from tracker.ir.index_arithmetic import compose_indices, relative_index
from tracker.ir.passes.memory_ssa import ArrayWrite, index_extents
from tracker.ir.passes.rewriter import (
    Definitions,
    broadcast_like,
    broadcast_source,
    is_signed_zero,
    rewrite_as,
    rule,
    scalar,
)

_MAX_IN_REGISTERS = 64  # elements; a smaller view is updated in registers
_MAX_UPDATES = 4  # of a view, that are made in its array instead


@rule("getitem", "embed", "put")
def full_slice(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """x[:, :] -> x, for an index of one full slice per axis; the same for x embedded there, and x
    put there, but for zeros (see `put_of_embed`)."""
    x = eqn.operands[-1]
    if not _is_full(eqn.params.get("index"), eqn.params.get("shape", eqn.operands[0].type.shape)):
        return None
    if eqn.op.name != "put":
        return x
    return None if _is_zero(x, defs) else broadcast_like(eqn, x)


@rule("embed")
def embed_of_flip(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """The embed of x at [::-1] is x[::-1], which takes no memory of its own."""
    index, shape = eqn.params["index"], eqn.params["shape"]
    if not _is_full(index, shape, (1, -1)):
        return None
    return rewrite_as(eqn, "getitem", eqn.operands, index=index)


def _is_full(index: Any, shape: tuple[int, ...], steps: tuple[int, ...] = (1,)) -> bool:
    """Whether an index has one slice per axis, of all elements, with one of these steps."""
    return (
        isinstance(index, tuple)
        and len(index) == len(shape)
        and all(
            isinstance(part, slice) and _covers(range(*part.indices(extent)), extent, steps)
            for part, extent in zip(index, shape, strict=True)
        )
    )


def _is_zero(atom: Atom, defs: Definitions) -> bool:
    """Whether all elements are the literal 0.0."""
    return is_signed_zero(broadcast_source(atom, defs) or atom, 1)


def _covers(positions: range, extent: int, steps: tuple[int, ...]) -> bool:
    return positions.step in steps and len(positions) == extent


@rule("getitem")
def forward_store(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """Store-to-load forwarding: put(x, v, i)[j] -> v[k] where j is a part of i, and x[j] where they
    are disjoint; for single elements, (x + embed(v, i))[i] -> x[i] + v.

    An embed is a put into zeros, and adding it changes x at its index only.
    """
    x, index = eqn.operands[0], eqn.params["index"]
    found = defs.history.last_write(x, index)
    if found is None:
        return None
    if isinstance(found, ArrayWrite):
        if found.value is not None and found.index == index:
            return broadcast_like(eqn, found.value)
        if found.value is not None and (part := _written_part(eqn, found)) is not None:
            return part
        if found.value is None and found.index == index and eqn.out.type.size == 1:
            return _read_of_sum(eqn, found, defs)
        source: Atom | None = found.out
    else:
        source = found.root
    if source is None:
        return broadcast_like(eqn, scalar(0, eqn.out.type.dtype))
    return None if source is x else rewrite_as(eqn, "getitem", (source,), index=index)


def _written_part(eqn: Eqn, write: ArrayWrite) -> Eqn | None:
    """The part of a written value that a read finds, if it reads nothing else."""
    value, shape = write.value, eqn.operands[0].type.shape
    assert value is not None
    part = relative_index(write.index, eqn.params["index"], shape)
    extents = [
        extent
        for extent, entry in zip(index_extents(write.index, shape), write.index, strict=False)
        if isinstance(entry, slice)
    ]
    if part is None or value.type.shape != tuple(extents):
        return None
    return rewrite_as(eqn, "getitem", (value,), index=part)


def _read_of_sum(eqn: Eqn, write: ArrayWrite, defs: Definitions) -> Eqn | None:
    """(x + embed(v, i))[i] -> x[i] + v, with the content of x at i if it is known.

    Both terms may be embeds at i; the history says which of them is x.
    """
    under = defs.history.previous_write(write.out)
    if under is None or write.added is None:
        return None
    source = under.out if isinstance(under, ArrayWrite) else under.root
    if isinstance(under, ArrayWrite) and under.index == write.index and under.value is not None:
        read = under.value
    elif source is None:
        return None
    else:
        read = defs.emit(eqn, "getitem", (source,), index=write.index)
    return rewrite_as(eqn, "add", (read, write.added)) if read.type == eqn.out.type else None


@rule("put")
def redundant_put(eqn: Eqn, defs: Definitions) -> Atom | None:
    """put(x, x[i], i) -> x, and put(put(x, v, i), v, i) -> put(x, v, i).

    `x[i] += v` is an update of the view x[i], and then a write of it into x.
    """
    x, value = eqn.operands
    index = eqn.params["index"]
    read = defs.definition(value, "getitem")
    if read is not None and read.operands[0] is x and read.params["index"] == index:
        return x
    found = defs.history.last_write(x, index)
    written = isinstance(found, ArrayWrite) and found.value is value and found.index == index
    return x if written else None


@rule("add")
def put_of_embed(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """put(x, 0.0, i) + embed(v, i) -> put(x, v, i), or v if i is all of x: the pullback of x[i] =
    f(x[i]) removes the cotangent of the slice, and adds a new one."""
    for total, part in (eqn.operands, eqn.operands[::-1]):
        cleared, embedded = defs.definition(total, "put"), defs.definition(part, "embed")
        if cleared is None or cleared.out.type != part.type:
            continue
        (x, value), index = cleared.operands, cleared.params["index"]
        if not _is_zero(value, defs):
            continue
        if _is_full(index, x.type.shape):
            return part
        if embedded is not None and index == embedded.params["index"]:
            put = rewrite_as(eqn, "put", (x, *embedded.operands), index=index)
            if put is not None:
                defs.history.forget_last(cleared.out)
            return put
    return None


@rule("put")
def put_through_view(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """put(x, put(x[i], v, j), i) -> put(x, v, k) with x[k] = x[i][j], for several updates, too.

    `z = x[::-1]` and `z[j] = v` write into z, then all of z into x. The pullback adds embed(v, j).
    """
    x, value = eqn.operands
    outer, shape = eqn.params["index"], x.type.shape
    changes = _view_updates(x, outer, value, defs) if value.type.size > _MAX_IN_REGISTERS else []
    for number, change in enumerate(changes, 1):
        index = compose_indices(outer, change.params["index"], shape)
        if index is None:
            return None
        name, operands, params = "put", (x, change.operands[-1]), {"index": index}
        if change.op.name == "embed":
            piece = defs.emit(eqn, "embed", change.operands, index=index, shape=shape)
            name, operands, params = "add", (x, piece), {}
        if number == len(changes):
            return rewrite_as(eqn, name, operands, **params)
        x = defs.emit(eqn, name, operands, **params)
    return None


@rule("put")
def put_of_transpose(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """put(transpose x, v, i) -> transpose(put(x, transpose v, j)): written where x is."""
    transposed, value = eqn.operands
    inner, index = defs.definition(transposed, "transpose"), eqn.params["index"]
    if inner is None or not all(isinstance(part, slice) for part in index):
        return None
    (x,), axes = inner.operands, inner.params["axes"]
    order = tuple([axes.index(axis) for axis in range(len(axes))])
    if value.type.shape:
        extents = index_extents(index, transposed.type.shape)
        if value.type.shape != tuple(extents):
            return None
        value = defs.emit(eqn, "transpose", (value,), axes=order)
    index = tuple([index[at] for at in order])
    written = defs.emit(eqn, "put", (x, value), index=index)
    return rewrite_as(eqn, "transpose", (written,), axes=axes)


def _view_updates(x: Atom, index: tuple[Any, ...], value: Atom, defs: Definitions) -> list[Eqn]:
    """The puts and added embeds that made `value` of x[index], the first one first; none if it was
    made otherwise, or of many."""
    found: list[Eqn] = []
    while len(found) <= _MAX_UPDATES:
        read = defs.definition(value, "getitem")
        if read is not None:
            whole = read.operands[0] is x and read.params["index"] == index
            return found[::-1] if whole else []
        change = defs.definition(value, "put")
        if change is not None:
            value = change.operands[0]
        else:
            total = defs.definition(value, "add")
            value, change = (value, None) if total is None else defs.split_embed(total)
        if change is None or change.out.type != value.type:  # or it is broadcast
            break
        found.append(change)
    return []


@rule("getitem")
def getitem_through_view(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """x[i][j] -> x[k] where x has been written into, so that its writes are found."""
    (view,) = eqn.operands
    outer = defs.definition(view, "getitem")
    if outer is None or view.type.size <= _MAX_IN_REGISTERS:
        return None
    x = outer.operands[0]
    if not defs.history.is_version(x):
        return None
    index = compose_indices(outer.params["index"], eqn.params["index"], x.type.shape)
    return None if index is None else rewrite_as(eqn, "getitem", (x,), index=index)


@rule("embed")
def embed_of_embed(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """embed(embed(v, j), i) -> embed(v, k)."""
    inner = defs.definition(eqn.operands[0], "embed")
    if inner is None:
        return None
    shape = eqn.params["shape"]
    index = compose_indices(eqn.params["index"], inner.params["index"], shape)
    if index is None:
        return None
    return rewrite_as(eqn, "embed", inner.operands, index=index, shape=shape)
