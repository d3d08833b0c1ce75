"""Rewrite rules for parts of arrays: readings and writes at basic indices.

Owns: the rules. Which write gave a part its newest numbers is known by `history.py`; how rules are
applied, and that they keep types, is in `rewrite.py`.

Invariant: as in `simplify.py`, of which these are a part: exact, and every rewrite is one towards
the array that was there first.
"""

from __future__ import annotations

from tracker.ir.graph import Atom, Eqn
from tracker.ir.history import Write, part_of
from tracker.ir.rewrite import Definitions, become, broadcast_source, is_zero, rule, scalar, spread


@rule("getitem")
def getitem_of_all(eqn: Eqn, defs: Definitions) -> Atom | None:
    """x[:, :] -> x, for an index of one slice per axis."""
    x, index = eqn.operands[0], eqn.params.get("index")
    shape = x.type.shape
    if not isinstance(index, tuple) or len(index) != len(shape):
        return None
    for part, extent in zip(index, shape, strict=True):
        if not isinstance(part, slice) or part.indices(extent) != (0, extent, 1):
            return None
    return x


@rule("getitem")
def read_past_writes(eqn: Eqn, defs: Definitions) -> Atom | Eqn | None:
    """put(x, v, i)[i] -> v, (x + embed(v, i))[i] -> x[i] + v for single elements, and
    put(x, v, i)[j] -> x[j] where i and j have nothing in common; an embed is a put into zeros, and
    adding one changes what is at its index only, as in the pass that adds pieces up
    (`arrivals.py`)."""
    x, index = eqn.operands[0], eqn.params["index"]
    found = defs.history.source(x, index)
    if found is None:
        return None
    if isinstance(found, Write):
        if found.value is not None and found.index == index:
            steady = bool(defs.steady) and part_of(eqn) in defs.steady
            return None if steady else spread(eqn, found.value)
        if found.value is None and found.index == index and eqn.out.type.size == 1:
            return _read_sum(eqn, found, defs)
        source: Atom | None = found.out
    else:
        source = found.root
    if source is None:
        return spread(eqn, scalar(0, eqn.out.type.dtype))
    return None if source is x else become(eqn, "getitem", (source,), index=index)


def _read_sum(eqn: Eqn, write: Write, defs: Definitions) -> Eqn | None:
    """(x + embed(v, i))[i] -> x[i] + v, with what stood there in x, if that is known. Which of the
    two terms is x the history says: both may be embeds at this index."""
    under = defs.history.under(write.out)
    if under is None or write.added is None:
        return None
    source = under.out if isinstance(under, Write) else under.root
    read: Atom | None
    if isinstance(under, Write) and under.index == write.index and under.value is not None:
        read = under.value
    elif source is None:
        return None
    else:
        read = defs.emit(eqn, eqn.out.type, "getitem", (source,), index=write.index)
    if read is None or read.type != eqn.out.type:
        return None
    return become(eqn, "add", (read, write.added))


@rule("put")
def written_already(eqn: Eqn, defs: Definitions) -> Atom | None:
    """put(x, x[i], i) -> x, and put(put(x, v, i), v, i) -> put(x, v, i): `x[i] += v` is a write
    through the view x[i], and then of the view."""
    x, value = eqn.operands
    index = eqn.params["index"]
    read = defs.of(value, "getitem")
    if read is not None and read.operands[0] is x and read.params["index"] == index:
        return x
    found = defs.history.source(x, index)
    written = isinstance(found, Write) and found.value is value and found.index == index
    return x if written else None


@rule("add")
def part_replaced(eqn: Eqn, defs: Definitions) -> Eqn | None:
    """put(x, 0.0, i) + embed(v, i) -> put(x, v, i): the pullback of x[i] = f(x[i]) takes away what
    arrives at the part, and adds what came of it."""
    for total, part in (eqn.operands, eqn.operands[::-1]):
        cleared, embedded = defs.of(total, "put"), defs.of(part, "embed")
        if cleared is None or embedded is None or cleared.out.type != embedded.out.type:
            continue
        (x, value), index = cleared.operands, cleared.params["index"]
        if index == embedded.params["index"] and is_zero(broadcast_source(value, defs) or value, 1):
            return become(eqn, "put", (x, *embedded.operands), index=index)
    return None
