"""Kinds of lowering: what loop the compiler makes of an op (the slot `lower` of `op.py`).

Invariant: a lowering is inert data; the compiler goes by its class and fields, never by op names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.support.structs import record


class Lowering:
    """How an op is compiled: the base class of all kinds."""

    __slots__ = ()


@record(frozen=True)
class Map(Lowering):
    """An elementwise op with broadcasting. body(e, *scalars, **params) -> scalar.

    dtypes    (*types) -> the dtypes in which the body takes its operands
    kinds     the dtype kinds that the body computes in; NumPy runs the op for others
    defined   (e, y, *scalars) -> where Python's own arithmetic gives this number; where it is
              false, Python raises (division by zero)
    refuses   (*operands) -> why NumPy must run the op for these operands, or ''
    requires  (b, *operands): writes, as an `Expand` does, conditions under which NumPy does not
              raise; may return a value in place of the result
    order     memory order of `evaluate`'s result: 'K', like the operands (a ufunc's), or 'C'; '' is
              unknown, and a trace then computes the result at once (see `tape/tracing/lazy.py`)
    """

    body: Callable[..., Any]
    dtypes: Callable[..., tuple[np.dtype[Any], ...]]
    kinds: str = "f"
    defined: Callable[..., Any] | None = None
    refuses: Callable[..., str] | None = None
    requires: Callable[..., Any] | None = None
    order: str = ""


@record(frozen=True)
class SliceWrites:
    """A copy of operand `base` (None: zeros), into which parts (operand number, basic index) are
    written in order. covers: the parts do not overlap and leave nothing of the base."""

    base: int | None
    parts: tuple[tuple[int, tuple[Any, ...]], ...]
    covers: bool = False


@record(frozen=True)
class View(Lowering):
    """An index map. source(e, index, *types, **params) -> (operand number, its index, condition).

    `index` and the result are tuples of the emitter's index values; the condition may be None. A
    list of such triples is a list of alternatives: the element comes from the first triple whose
    condition holds, and is zero if none does.

    writes  (*types, **params) -> `SliceWrites`: the same, for a view that is put together of slices
    order   as in `Map`; 'V': `evaluate` gives a view wherever one is possible

    `e.held(k, index, extent)` reads operand k, an array of integers, at an index, as a position: a
    negative one counts from the end, and the result is always inside of `extent`. (That the
    integers are in range is checked before; see `Expand`.)
    """

    source: Callable[..., Any]
    writes: Callable[..., SliceWrites] | None = None
    order: str = ""


@record(frozen=True)
class Scatter(Lowering):
    """A copy of operand `base` (None: zeros), into which the elements of operand `value` are
    written one after another in C order; the last write to a position stays.

    update_shape(*types, **params) is the shape to which `value` is broadcast,
    target(e, index, *types, **params) the position of its element at `index` (`e` as in `View`).
    adds: elements are added to what is there, in the same order.
    """

    update_shape: Callable[..., tuple[int, ...]]
    target: Callable[..., tuple[Any, ...]]
    base: int | None
    value: int
    adds: bool = False


class Compact(Lowering):
    """The positions of the true elements in C order, as many as the result has room for."""


class Iota(Lowering):
    """No operands; each element is its own index along the param `axis`."""


class Before(Lowering):
    """The operand is an integer; each element is whether its index along the param `axis` is less.

    Loops are split there, and what both parts of a loop leave as it is takes no time.
    """


class LiteralTable(Lowering):
    """No operands; the elements are the param `values`, constants in the code."""


@record(frozen=True)
class Sort(Lowering):
    """The stable order of the last axis: positions that sort it, of unsigned integers.

    values: the sorted operand instead.
    """

    values: bool = False


class Select(Lowering):
    """Selection: the keys at given ranks of each row. The operands are rows of unsigned integers,
    and the ranks, of each row or of all of them."""


class LocateSelected(Lowering):
    """The positions of the keys that `Select` gives, equal keys in order. The operands are those of
    the `Select` and its result."""


class Search(Lowering):
    """Binary search: for each key, how many elements of a sorted row are less, or, with the param
    `right`, not greater. The operands are the row and the keys, unsigned integers of one dtype."""


class UfuncCall(Lowering):
    """A call of another package's ufunc on whole arrays, by its inner loop.

    The params are `ufunc`, `at` (the number of the result) and `core`. The operands have the loop's
    dtypes, and each has the shape of the result or one element; or, with a `core` (n, m), the first
    is rows of n elements, and the result has m for each row.
    """


@record(frozen=True)
class Scan(Lowering):
    """A scan along the param `axis`: combine(e, acc, *xs) -> acc, element after element in the
    dtype of the result; the first element of the first operand is the first result."""

    combine: Callable[..., Any]


@record(frozen=True)
class Reduce(Lowering):
    """A reduction over axes. combine(e, acc, x) -> acc; `identity(dtype)` starts it.

    The op's params are `axis` (a tuple of ints) and `keepdims`; elements are first cast to the
    dtype of the result. reorder: partial results may be combined in any order. finish(e, acc,
    count) makes the result of the accumulator (a mean divides). blocks: long sums are added up
    by blocks, because one long sum loses digits that NumPy's pairwise sum keeps. kinds: dtype kinds
    that can be reduced.
    """

    identity: Callable[[np.dtype[Any]], Any]
    combine: Callable[..., Any]
    reorder: bool = True
    finish: Callable[..., Any] | None = None
    blocks: bool = False
    kinds: str = "biufc"


class Contract(Lowering):
    """A matrix product in the sense of `np.matmul`: BLAS, or inline where small."""


class Loop(Lowering):
    """A counted loop around the nested function `body`. Operands: count, consts, carries, rows.

    Params: `body`(*consts, *carries, *rows[i]) -> (*carries, *ys); `consts`, `carries`: their
    numbers; `length`: the extent of the rows' first axis and of stacked results, at least `count`;
    `reverse`: steps go from count-1 down; `keep`: which carries are stacked as they are at the
    start of each step. The result is a bundle: carries, stacked ys, kept carries.
    """


class While(Lowering):
    """A loop while the nested function `cond` holds. Operands: consts of cond, of body, carries.

    Params: `cond`, `body`(*consts, *carries) -> carries; `cond_consts`, `body_consts`: their
    numbers; `capacity`: the number of steps that can be kept; `keep` as in `Loop`. The result is a
    bundle: carries, the number of steps, kept carries. A loop that keeps carries and takes more
    steps than `capacity` fails as a guard does.
    """


class Branch(Lowering):
    """One of the nested functions `branch0`, `branch1`, ... (params), chosen by the first operand.

    The other operands are its arguments; all branches give the same types. The result is a bundle.
    """


class Pick(Lowering):
    """Part number `at` (a param) of a bundle; no code."""


@record(frozen=True)
class Expand(Lowering):
    """Lowered as other ops. build(b, *operands, **params) -> atom, or why NumPy must run the op.

    `b(op, *operands, **params)` writes an equation and returns its result; `b.require(atom)` makes
    the rest conditional on a bool: where it is false, NumPy runs the op (and raises).

    order              as in `Map`, or (*types, **params) -> that
    checked_positions  (*types, **params) -> (operand number, extent) of each operand whose integers
                       must be positions within this extent, if NumPy raises for nothing else
    position_bound     (*types, **params) -> the exclusive upper bound of a result of positions
    """

    build: Callable[..., Any]
    order: str | Callable[..., str] = ""
    checked_positions: Callable[..., Sequence[tuple[int, int]]] | None = None
    position_bound: Callable[..., int] | None = None


def no_positions(*_: Any, **__: Any) -> tuple[()]:
    """The `checked_positions` of an op without any."""
    return ()


@record(frozen=True)
class Routine(Lowering):
    """Dense linear algebra on a matrix, or on each matrix of a stack, in float64 or complex128, in
    which NumPy computes it whatever the dtype.

    name             the routine of `jit/lapack/`; where it reports failure, NumPy would raise
    sizes            (*types, **params) -> the integer arguments of the routine
    takes_factored   operand 0 is passed factored (LU); equations share the factors of a matrix
    takes_transposed operand 0 may be passed transposed; a last integer then says so
    scalar_operands  the operands that are not matrices, but a real number per matrix
    may_raise        NumPy raises for some matrices
    """

    name: str
    sizes: Callable[..., tuple[int, ...]]
    takes_factored: bool = False
    takes_transposed: bool = False
    scalar_operands: tuple[int, ...] = ()
    may_raise: bool = False


@record(frozen=True)
class Host(Lowering):
    """NumPy runs the op between kernels; `why` is the reason that `explain` prints.

    effect: the op has side effects, so it runs once on each call, in order. prepare(**params)
    returns a function of the operands that replaces `evaluate` where that is faster.
    """

    why: str
    effect: bool = False
    prepare: Callable[..., Callable[..., Any]] | None = None
