"""Products of a long matrix with a short one, as loops over the rows of the long one.

BLAS copies its operands into blocks before it multiplies: for thousands of rows of a few numbers
each that takes longer than the products. Here a row's numbers stay in registers, and are read where
they are: a matrix that is put together of views (the windows of a convolution, `np.stack` of
shifted slices) is never made.

    a (m, k) @ b (k, n)      each row of the result is a vector: the sum of the rows of b, times the
                             numbers of a row of a
    a (k, m) @ b (m, n)      a sum over long columns: of each row of b, times each number of a's
                             column, into k vectors

Owns: `RowProduct` (a step of the plan), `form_of`, `gathered` and `plan_rows`; the loops are
written in `rowcode.py`. Start at `plan_rows`.

Invariants: which products are done so follows from types alone, so that a view which only they read
need not be stored; sums of many rows are added up by blocks, as BLAS does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracker.ir.graph import Atom, Eqn, Function, Guard, Var
from tracker.ir.op import Contract, View
from tracker.ir.types import Type
from tracker.jit import parallel
from tracker.jit.index import Affine, Tools, formulas
from tracker.jit.layout import Buffer, address
from tracker.jit.strides import c_strides
from tracker.records import record

_LONG = 2048  # rows; from here on a matrix is long
_WIDE = 16  # numbers of a vector; more than fit into one register must be a power of two
_REGISTER = 64  # bytes
_TERMS = 64  # products of vectors of 32 bytes that one row takes; more would leave the registers
_THIN = 8  # so many times as many numbers in a row as in a vector: BLAS's vectors go along rows
_WORK = 1 << 17  # products of numbers; fewer are not worth a loop of their own
_SHARED = 1 << 21  # products of numbers; from here on threads share them
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@record(frozen=True)
class Form:
    """Which operand is read number by number, and along which of its axes it is long; whether rows
    are summed; whether the result is turned (its rows are the numbers of a vector)."""

    reads: int
    axis: int
    sums: bool
    turned: bool = False


@record(frozen=True)
class Gather:
    """Where a long matrix is: the first row in a buffer, how far the next one is along each loop,
    and how far from its start each number of a row is."""

    buffer: Buffer
    start: int
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    ready: int


@record(eq=False)
class RowProduct:
    """A product as loops over `rows`. `parts`: memory for what each thread sums."""

    eqn: Eqn
    form: Form
    rows: tuple[int, ...]
    gather: Gather
    other: Var
    threads: int
    parts: Buffer | None


def form_of(eqn: Eqn) -> Form | None:
    """How a product is done in loops over rows; None if it is not."""
    if not isinstance(eqn.op.lower, Contract) or eqn.out.type.dtype not in _FLOATS:
        return None
    if not all(isinstance(o, Var) and o.type.ndim == 2 for o in eqn.operands):
        return None
    a, b = (o.type for o in eqn.operands)
    m, k, n = *a.shape, b.shape[1]
    if m * k * n < _WORK:
        return None
    if m >= _LONG and _is_short(k, n, a):
        return Form(0, 0, sums=False)
    if k >= _LONG and _is_short(m, n, a):
        return Form(0, 1, sums=True)
    if k >= _LONG and _is_short(n, m, a):
        return Form(1, 0, sums=True, turned=True)
    return None


def _is_short(count: int, width: int, type: Type) -> bool:
    """Whether so many vectors of so many numbers are few enough, and vectors at all."""
    size = width * type.dtype.itemsize
    whole = size <= _REGISTER or width & (width - 1) == 0
    few = 1 < count <= min(_THIN * width, _TERMS // -(-size // 32))
    return 1 < width <= _WIDE and whole and few


def gathered(function: Function) -> set[Var]:
    """Values that only products of this kind read, directly or by way of views of one operand."""
    eqns = list(function.eqns)
    if not any(form_of(eqn) for eqn in eqns):
        return set()
    uses: dict[Var, list[Eqn | None]] = {}
    for step in function.body:
        user = step if isinstance(step, Eqn) else None
        for atom in (step.operand,) if isinstance(step, Guard) else step.operands:
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append(user)
    found: set[Var] = set()
    kept = set(function.outputs)
    for eqn in reversed(eqns):
        readers = uses.get(eqn.out, ())
        if eqn.out not in kept and all(_gathers(user, eqn.out, found) for user in readers):
            found.add(eqn.out)
    return found


def _gathers(use: Eqn | None, var: Var, found: set[Var]) -> bool:
    if use is None:
        return False
    if isinstance(use.op.lower, View):
        return len(use.operands) == 1 and use.out in found
    form = form_of(use)
    return form is not None and use.operands[form.reads] is var is not use.operands[1 - form.reads]


def plan_rows(planner: Any, eqn: Eqn) -> bool:
    """Have the operands where they can be read, and place the result; False if it is not done in
    loops over rows."""
    form = form_of(eqn)
    if form is None:
        return False
    long, other = eqn.operands[form.reads], eqn.operands[1 - form.reads]
    assert isinstance(long, Var) and isinstance(other, Var)
    rows = _rows(planner, long, form.axis)
    gather = _gather(planner, long, form.axis, rows)
    place = planner.stored(other)
    a, b = (o.type for o in eqn.operands)
    work = a.size * b.shape[1]
    threads = parallel.threads() if work >= _SHARED else 1
    if rows[0] < 2 * threads:
        threads = 1
    parts = None
    if form.sums and threads > 1:
        parts = planner.buffer(Type((threads, eqn.out.type.size), eqn.out.type.dtype), "scratch")
    level = max(gather.ready, place.ready)
    planner.result(eqn.out, level + 1)
    planner.plan.rows[eqn.out] = RowProduct(eqn, form, rows, gather, other, threads, parts)
    planner.plan.products.setdefault(level, []).append(eqn)
    return True


def _rows(planner: Any, var: Var, axis: int) -> tuple[int, ...]:
    """The loops over the rows of a matrix: as many as the array has axes of which it is a view."""
    rows = (var.type.shape[axis],)
    while not planner.places[var].stored:
        eqn = planner.plan.definitions[var]
        if not isinstance(eqn.op.lower, View) or len(eqn.operands) != 1:
            break
        (source,) = eqn.operands
        if not isinstance(source, Var) or source.type.size != var.type.size:
            break
        if source.type.ndim != 2:
            return _leading(source.type.shape, rows[0], axis) or rows
        moved = _moved(eqn, source, axis)
        if moved is None:
            break
        var, axis = source, moved
    return rows


def _moved(eqn: Eqn, source: Var, axis: int) -> int | None:
    """Which axis of the operand of a view of a matrix is its long one."""
    index = _formulas(eqn, (Affine(((0, 1),)), Affine(((1, 1),))), eqn.out.type.shape)
    for at, i in enumerate(index or ()):
        if i == Affine(((axis, 1),)) and source.type.shape[at] == eqn.out.type.shape[axis]:
            return at
    return None


def _leading(shape: tuple[int, ...], count: int, axis: int) -> tuple[int, ...] | None:
    """The axes, first or last ones, that make up so many rows."""
    for cut in range(1, len(shape)):
        part = shape[:cut] if axis == 0 else shape[cut:]
        if math.prod(part) == count:
            return part
    return None


def _gather(planner: Any, var: Var, axis: int, rows: tuple[int, ...]) -> Gather:
    """Where each number of a row is. What stands in the way is stored."""
    flat = Tools().flatten([Affine(((i, 1),)) for i in range(len(rows))], rows)
    while True:
        found = [
            _place(planner, var, (flat, p) if axis == 0 else (p, flat), rows)
            for p in range(var.type.shape[1 - axis])
        ]
        stored = next((f for f in found if isinstance(f, Var)), None)
        places = [f for f in found if not isinstance(f, Var)]
        if stored is None and len({(f.buffer, f.strides) for f in places}) > 1:
            stored = var
        if stored is None:
            first = places[0]
            offsets = tuple(f.start - first.start for f in places)
            ready = max(f.ready for f in places)
            return Gather(first.buffer, first.start, first.strides, offsets, ready)
        planner.store(stored)


def _place(planner: Any, var: Var, index: tuple[Any, ...], rows: tuple[int, ...]) -> Any:
    """The place of an element in each row; or the value that must be stored first."""
    while True:
        place = planner.places[var]
        if place.stored:
            return address(place, index, len(rows), place.ready) or var
        eqn = planner.plan.definitions[var]
        found = _source(eqn, index, rows) if isinstance(eqn.op.lower, View) else None
        if found is None or not isinstance(found[0], Var):
            return var
        var, index = found


def _formulas(eqn: Eqn, index: tuple[Any, ...], extents: Iterable[int]) -> Any:
    found = _source(eqn, index, extents)
    return None if found is None else found[1]


def _source(eqn: Eqn, index: tuple[Any, ...], extents: Iterable[int]) -> Any:
    """(operand, index) of which an element of a view is read; None where that takes more than
    formulas."""
    found = formulas(eqn, index, extents)
    if found is None:
        return None
    for which, source, inside in found if isinstance(found, list) else [found]:
        if inside is None or inside is True:
            operand: Atom = eqn.operands[which]
            return operand, tuple(source)
        if inside is not False:
            return None
    return None


def row_strides(rows: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """How far the next row is along each loop, where rows lie one after the other."""
    return tuple(stride * step for step in c_strides(rows))
