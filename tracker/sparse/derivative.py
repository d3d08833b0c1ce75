"""`SparseDerivative`: a compiled function that gives a Jacobian or Hessian as a sparse array.

One jitted function runs `f`, applies its pushforward or pullback to all seeds (a seed is the sum of
the unit vectors of one colour), and returns, besides, the number of its trace and what the pattern
is based on. After a call these are compared with those of the pattern in use; another trace (a
branch that was not taken before), or other positions, have another pattern, and the call is
repeated with it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from tracker import tree
from tracker.autodiff.boundary import stack_nested
from tracker.autodiff.pullbacks import linearize
from tracker.errors import NotScalarError, NotTrackedError, UnsupportedError
from tracker.jit import jit, trace
from tracker.sparse.colouring import colour_columns, colour_symmetric, count_colours, recovery
from tracker.sparse.pattern import PatternGuards, sparse_places, tape_pattern
from tracker.support.structs import record
from tracker.tape.record import aval_of, value_of, wrap
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value
from tracker.transforms.vmap import vmap_pure

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_PLANS = 32  # kept for each derivative
_MAX_REPEATS = 4
_trace_numbers = itertools.count(1)
_newest = threading.local()  # `number`: that of the trace that this thread made last
_analysed: dict[int, Analysis] = {}  # by the number of the trace, until its caller takes it


@record()
class Analysis:
    """The pattern of a trace: for these positions, and SciPy's matrices with these places.

    None among the positions: the pattern is for all of them.
    """

    pattern: Any
    is_complex: bool
    positions: list[Any]
    matrices: list[tuple[Any, Any, Any]]

    def holds(self, positions: list[Any]) -> bool:
        """Whether it is the pattern for these positions, and the matrices as they are now."""
        return len(positions) == len(self.positions) and all(
            itertools.chain(
                map(_covers, self.positions, positions),
                itertools.starmap(_has_places, self.matrices),
            )
        )

    def is_same(self, other: Analysis) -> bool:
        mine, theirs = self.pattern, other.pattern
        return (
            self.is_complex == other.is_complex
            and self.holds(other.positions)
            and len(self.matrices) == len(other.matrices)
            and np.array_equal(mine.indptr, theirs.indptr)
            and np.array_equal(mine.indices, theirs.indices)
        )


@record()
class ColouredPattern:
    """How the entries of a pattern are computed, in traces of these numbers.

    colours: of its columns, or of its rows, if `by_rows`; seeds: one for each colour; where: the
    place of each entry in the products.
    """

    traces: set[int]
    analysis: Analysis
    colours: NDArray[np.intp]
    by_rows: bool
    seeds: Any
    where: Any


class SparseDerivative:
    """A Jacobian or Hessian: a function of the arguments of `f` that gives a `csr_array`.

    `jacobian` and `hessian` make it. `pattern`, `colours`: see there.
    """

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], argnum: int, symmetric: bool
    ) -> None:
        self._f, self._args, self._argnum, self._symmetric = f, args, argnum, symmetric
        given = self._arguments(args)
        self._columns = given[argnum].shape
        self._compiled = [jit(_products(f, argnum, by_rows)) for by_rows in (False, True)]
        self._plans: list[ColouredPattern] = []
        self._plan = self._analyse(given)

    def __call__(self, *args: Any) -> sp.csr_array:
        given = self._arguments(args)
        if (shape := given[self._argnum].shape) != self._columns:
            text = f"the argument has shape {shape}; the example had {self._columns}"
            raise UnsupportedError(
                text, "Make another, with such an example: tracker.sparse.jacobian(f, x)"
            )
        plan = self._plan  # other threads may go on to another one
        for _ in range(_MAX_REPEATS):
            products, number, *positions = self._compiled[plan.by_rows](plan.seeds, *given)
            new = _analysed.pop(number, None)
            if new is not None:
                self._add(new, number)
            if number in plan.traces and plan.analysis.holds(positions):
                return self._assemble(plan, products)
            plan = self._plan = self._find(number, positions) or self._analyse(given)
            plan.traces.add(number)
        raise UnsupportedError(
            "the sparsity pattern was another one each time it was looked at: the function "
            "draws random numbers, or another thread writes into its arrays",
            "Use tracker.jacobian",
        )

    @property
    def pattern(self) -> sp.csr_array:
        """Where entries may be nonzero, at the newest call: a boolean array."""
        made: sp.csr_array = self._plan.analysis.pattern.copy()
        return made

    @property
    def colours(self) -> NDArray[np.intp]:
        """The colour of each column, or of each row if there are fewer colours of rows."""
        return self._plan.colours.copy()

    def __reduce__(self) -> Any:
        return SparseDerivative, (self._f, self._args, self._argnum, self._symmetric)

    def _arguments(self, args: tuple[Any, ...]) -> list[Any]:
        """The arguments, with the one to differentiate in as an array of floats."""
        if not -len(args) <= self._argnum < len(args):
            raise UnsupportedError(
                f"got argnum={self._argnum} for {len(args)} arguments", "Count from 0"
            )
        x = (
            np.array(args[self._argnum])
            if tree.is_number_list(args[self._argnum])
            else args[self._argnum]
        )
        if not isinstance(x, np.ndarray) or not x.ndim or x.dtype.kind not in "biuf":
            shown = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
            raise NotTrackedError(
                f"a sparse derivative needs an array of real numbers, of one axis or more; "
                f"argument {self._argnum} is {shown}",
                "Say by argnum= which argument to differentiate in; join the arrays of a "
                "structure by tracker.tree.ravel",
            )
        given = list(args)
        given[self._argnum] = x if x.dtype.kind == "f" else x.astype(float)
        return given

    def _analyse(self, given: list[Any]) -> ColouredPattern:
        """The plan for these arguments, from a run of the function."""
        trace(self._compiled[0], None, *given)
        return self._add(_analysed.pop(_newest.number), _newest.number)

    def _add(self, new: Analysis, number: int) -> ColouredPattern:
        """The plan of a trace, which may be an old one's."""
        for plan in self._plans:
            if plan.analysis.is_same(new):
                plan.traces.add(number)
                return plan
        plan = _plan_for(new, number, self._columns, self._symmetric)
        self._plans = [*self._plans[1 - _MAX_PLANS :], plan]
        return plan

    def _find(self, number: int, positions: list[Any]) -> ColouredPattern | None:
        for plan in reversed(self._plans):
            if number in plan.traces and plan.analysis.holds(positions):
                return plan
        return None

    def _assemble(self, plan: ColouredPattern, products: Any) -> sp.csr_array:
        pattern = plan.analysis.pattern
        if not pattern.nnz:
            return sp.csr_array(pattern.shape)
        data = np.take(np.ravel(products), plan.where)
        made = sp.csr_array((data, pattern.indices.copy(), pattern.indptr.copy()), pattern.shape)
        made.has_canonical_format = True
        return made


def _plan_for(
    analysis: Analysis, number: int, columns: tuple[int, ...], symmetric: bool
) -> ColouredPattern:
    pattern = analysis.pattern
    by_rows = False
    if symmetric:
        colours, where = colour_symmetric(pattern)
    else:
        colours, transposed = colour_columns(pattern), pattern.T.tocsr()
        most = np.max(np.diff(transposed.indptr), initial=0)  # entries of a column
        if most < count_colours(colours):  # no fewer colours of rows than this
            of_rows = colour_columns(transposed)
            # Pullbacks of complex results are conjugated: only pushforwards give their entries.
            by_rows = count_colours(of_rows) < count_colours(colours) and not analysis.is_complex
        if by_rows:
            colours = of_rows
            rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
            where = colours[rows] * pattern.shape[1] + pattern.indices
        else:
            where = recovery(pattern, colours)
    count = max(count_colours(colours), 1)
    seeds = np.zeros((count, colours.size))
    seeds[colours, np.arange(colours.size)] = 1.0
    shape = (colours.size,) if by_rows else columns
    return ColouredPattern(
        {number}, analysis, colours, by_rows, seeds.reshape(count, *shape), where
    )


def _products(f: Callable[..., Any], argnum: int, by_rows: bool) -> Callable[..., Any]:
    """The function (seeds, *args) -> (products, number of the trace, *positions)."""

    def products(seeds: Any, *args: Any) -> tuple[Any, ...]:
        ends: list[Any] = []

        def flat(x: Any) -> Any:
            given = list(args)
            given[argnum] = x
            y = stack_nested(f(*given))
            if not tree.is_numeric(aval_of(y)):
                raise NotScalarError(
                    f"a sparse jacobian needs a number or an array; the output is a "
                    f"{type(y).__name__}",
                    "Join the results with np.concatenate",
                )
            y = np.ravel(y)
            ends[:] = [x, y]
            return y

        _, pull, push = linearize(flat, (args[argnum],), {})
        analysis, values = _analyse_ends(*ends)
        number = next(_trace_numbers)
        _analysed[number], _newest.number = analysis, number
        positions = [np.not_equal(wrap(v), 0) if nonzeros else wrap(v) for v, nonzeros in values]
        if seeds is None:
            return (None, number, *positions)
        found = vmap_pure((lambda s: np.ravel(pull(s)[0])) if by_rows else push, seeds)
        return (found, number, *positions)

    return products


def _analyse_ends(x: Any, y: Any) -> tuple[Analysis, list[tuple[Value, bool]]]:
    """The analysis of a recorded function, and the values that it is based on."""
    shape = (np.size(y), np.size(x))
    if isinstance(x, Tracked) and isinstance(y, Tracked):
        pattern, guards = tape_pattern(value_of(x), value_of(y))
    else:
        pattern, guards = sp.csr_array(shape, dtype=bool), PatternGuards()
    pattern.sum_duplicates()
    pattern.eliminate_zeros()
    positions = [sparse_places(v.data) if nz else np.array(v.data) for v, nz in guards.values]
    matrices = [
        (places, now.indptr.copy(), now.indices.copy())
        for places in guards.matrices
        for now in (sp.csr_array(places()),)
    ]
    return Analysis(pattern, np.iscomplexobj(y), positions, matrices), guards.values


def _covers(wanted: Any, found: Any) -> bool:
    return wanted is None or (found is not None and np.array_equal(wanted, found))


def _has_places(places: Callable[[], Any], indptr: Any, indices: Any) -> bool:
    """Whether a matrix has its entries where they were."""
    now = sp.csr_array(places())
    return np.array_equal(indptr, now.indptr) and np.array_equal(indices, now.indices)
