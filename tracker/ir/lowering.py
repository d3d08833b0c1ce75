"""What an operation is: one declaration with every slot filled.

Owns: `Op`, the kinds of lowering (`Map`, `View`, `Scatter`, `Compact`, `Scan`, `Sort`, `Select`,
`LocateSelected`, `Search`, `UfuncCall`, `Iota`, `LiteralTable`, `Reduce`, `Contract`, `Routine`,
`Loop`, `While`, `Branch`, `Pick`, `Expand`, `Host`), `Joint` rules, `define`, and the tables in
which NumPy callables and array methods find their op. Declarations live in `tracker/ops/`, one file
per family; see `define` for the slots.

Invariants: an `Op` is inert data: it cannot apply itself (the gate in `tape/record.py` does). A
slot left out is a `TypeError` at import. A kind, never a name, tells the compiler what loop an op
is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracker.support.structs import record


@record(frozen=True)
class Map:
    """Elementwise with broadcasting. body(e, *scalars, **params) -> scalar.

    `dtypes(*types) -> (operand dtypes)` says in which dtypes the body wants its operands; `kinds`
    are the dtype kinds it can compute in (others go through NumPy). `defined(e, y, *scalars)`:
    where Python's own arithmetic gives this number; elsewhere it raises (division by zero).
    `refuses(*operands)` says why NumPy must do it for these operands, or nothing.
    `requires(b, *operands)` writes, as an `Expand` does, what must hold: elsewhere NumPy raises. It
    may give a value that stands for the equation's.
    `order` says how what `evaluate` gives lies in memory: 'K', as its operands do (a ufunc's), or
    'C'. Where it is not said, a trace computes the result at once (see `tape/lazy.py`).
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
    written in order. `covers`: the parts do not overlap and leave nothing of the base."""

    base: int | None
    parts: tuple[tuple[int, tuple[Any, ...]], ...]
    covers: bool = False


@record(frozen=True)
class View:
    """An index map. source(e, index, *types, **params) -> (operand number, its index, inside).

    `index` and the answer are tuples of the emitter's index values; `inside` is None, or a
    condition. A list of such triples is a list of alternatives: the element comes from the first
    one whose condition holds, and is zero if none does.

    writes(*types, **params) -> `SliceWrites` says the same of a view that is put together of
    pieces.

    `order` is that of `Map`; 'V' says that `evaluate` gives a view, wherever there can be one.

    `e.held(k, index, extent)` is the position that operand k, an array of integers, holds at an
    index: from the end if it is negative, and always inside of `extent` (who must know whether it
    was asks first: see `Expand`).
    """

    source: Callable[..., Any]
    writes: Callable[..., SliceWrites] | None = None
    order: str = ""


@record(frozen=True)
class Scatter:
    """A copy of operand `base` (None: zeros), into which the elements of operand `value` are
    written one after the other, in C order; the last one stays.

    space(*types, **params) is the shape over which `value` is broadcast, and
    target(e, index, *types, **params) the place of its element at `index` (`e` is that of a
    `View`). `adds`: they are added to what is there, in the same order.
    """

    update_shape: Callable[..., tuple[int, ...]]
    target: Callable[..., tuple[Any, ...]]
    base: int | None
    value: int
    adds: bool = False


class Compact:
    """The positions, in C order, of the true elements of the operand; the result has room for
    them, or takes as many as it has room for."""


class Iota:
    """No operands; each element is its own index along the axis `axis`."""


class LiteralTable:
    """No operands; the elements are the numbers in the param `values`, and lie in the code."""


@record(frozen=True)
class Sort:
    """The positions that put the operand in order along the last axis: unsigned integers, least
    first, equal ones as they come. With `values`: the operand in order."""

    values: bool = False


class Select:
    """Which keys stand at some places of rows in order. The operands are rows of unsigned integers
    and the places in each row, or those in all of them; the result is as many keys of each row."""


class LocateSelected:
    """Where in a row the keys that `Select` gives came from: equal ones as they come. The operands
    are its operands and its result."""


class Search:
    """Where keys would go in a row of keys in order: how many of these are less, or, with the param
    `right`, not greater. The operands are unsigned integers of one dtype: the row, the keys."""


class UfuncCall:
    """A ufunc of another package, of whole arrays: its own inner loop is called once. The params
    are `ufunc`, `at`, which of its results is meant, and `core`. The operands have the loop's
    dtypes, and each has the shape of the result or one element; or, with a `core` (n, m), the
    first is rows of n elements, of which the result has m each."""


@record(frozen=True)
class Scan:
    """A running fold along the axis `axis`: combine(e, acc, *xs) -> acc, element after element, in
    the dtype of the result; the first element of the first operand is the first result."""

    combine: Callable[..., Any]


@record(frozen=True)
class Reduce:
    """A fold over axes. combine(e, acc, x) -> acc; `identity(dtype)` starts it.

    The op's params are `axis` (a tuple of ints) and `keepdims`. Elements are cast to the output's
    dtype first. `reorder`: partial results may be combined in any order. `finish(e, acc, count)`
    turns the folded value into the result (a mean divides). `widen`: small floats are folded in
    float64, for one long sum of them loses digits that NumPy's pairwise sum keeps. `kinds` are the
    dtype kinds that can be folded.
    """

    identity: Callable[[np.dtype[Any]], Any]
    combine: Callable[..., Any]
    reorder: bool = True
    finish: Callable[..., Any] | None = None
    widen: bool = False
    kinds: str = "biufc"


class Contract:
    """A matrix product in `np.matmul`'s sense; goes to BLAS, or inline when small."""


class Loop:
    """A counted loop around the nested function `body`. Operands: count, consts, carries, rows.

    Params: `body`(*consts, *carries, *rows[i]) -> (*carries, *ys); `consts`, `carries`: how many;
    `length`: the extent of the rows' first axis and of what is stacked, at least `count`;
    `reverse`: steps go from count-1 down; `keep`: which carries are stacked as each step found
    them. The result is a bundle: carries, stacked ys, kept carries.
    """


class While:
    """A loop while the nested function `cond` holds. Operands: cond's consts, body's, carries.

    Params: `cond`, `body`(*consts, *carries) -> carries; `cond_consts`, `body_consts`: how many;
    `capacity`: how many steps can be kept; `keep` as in `Loop`. The result is a bundle: carries,
    how many steps there were, kept carries. A loop that keeps and takes more steps than `capacity`
    fails as a guard does.
    """


class Branch:
    """One of the nested functions `branch0`, `branch1`, ... (params), chosen by the first operand.

    The others are its arguments; all give the same types. The result is a bundle.
    """


class Pick:
    """Part number `at` (a param) of a bundle: no code at all."""


@record(frozen=True)
class Expand:
    """Lowered as other ops. build(b, *operands, **params) -> atom, or why NumPy must run it.

    `b(op, *operands, **params)` writes an equation and gives its result; `b.require(atom)` says
    that the rest holds only while a bool is true: where it is not, plain NumPy runs (and raises).

    `order` is that of `Map`. positions(*types, **params) -> (operand number, extent) of each
    operand whose integers must be positions within this extent, where NumPy raises for nothing
    else; None where it may. below(*types, **params): what the integers that it gives are less than,
    where they are positions.
    """

    build: Callable[..., Any]
    order: str = ""
    checked_positions: Callable[..., Sequence[tuple[int, int]] | None] | None = None
    position_bound: Callable[..., int] | None = None


@record(frozen=True)
class Routine:
    """Dense linear algebra on a matrix, or on each matrix of a stack: in float64 or complex128,
    in which NumPy computes it whatever the dtype.

    name     which routine of `jit/dense/` does it; where it says that it failed, NumPy would raise
    sizes    (*types, **params) -> the integers that the routine is given
    factor   operand 0 is handed to it factored (LU); equations share the factors of a matrix
    turns    operand 0 may be handed to it transposed; a last integer then says so
    numbers  which operands are no matrices, but a real number for each matrix
    raises   NumPy raises for some matrices
    """

    name: str
    sizes: Callable[..., tuple[int, ...]]
    takes_factored: bool = False
    takes_transposed: bool = False
    scalar_operands: tuple[int, ...] = ()
    may_raise: bool = False


@record(frozen=True)
class Host:
    """NumPy runs it between kernels. `why` is what `explain` says. With an `effect` it is not only
    its result that counts: it is run on each call, once, in order. `prepare`, given the parameters,
    gives the function of the operands, if that is quicker than `evaluate`."""

    why: str
    effect: bool = False
    prepare: Callable[..., Callable[..., Any]] | None = None


Lowering = (
    Map
    | View
    | Scatter
    | Compact
    | Scan
    | Sort
    | Search
    | Select
    | LocateSelected
    | UfuncCall
    | Iota
    | LiteralTable
    | Reduce
    | Contract
    | Routine
    | Loop
    | While
    | Branch
    | Pick
    | Expand
    | Host
)
