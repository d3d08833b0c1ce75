"""`psum`: the sum of a value over the ranks of an MPI communicator, as the op `psum`.

The op is linear and its own transpose, so derivatives of any order exist: the tangent is the sum of
the ranks' tangents, the cotangent the sum of their cotangents. Compiled code calls MPI back.

Invariant: ranks that run the same program enter the same sums in the same order, whether they
trace, run machine code or plain Python. The op has an effect, so that no pass removes, merges or
moves it; a trace records also the sums of constants; and a run that is repeated from its start,
because a guard failed or the function cannot be traced, gets the sums that it had again from
`_Exchange`, without another exchange that other ranks do not enter.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tracker import tree
from tracker.errors import UnsupportedError
from tracker.ir.lowering import Host
from tracker.ir.op import define
from tracker.ir.types import Type
from tracker.ops.shape.create import buffer
from tracker.random.draw_ops import before_draw, is_logged
from tracker.tape.record import apply
from tracker.tape.tracing.tracer import current_tracer
from tracker.tape.tracked import Tracked


def psum(x: Any, comm: Any) -> Any:
    """The sum of `x` over all ranks of an MPI communicator; every rank gets it.

    Parameters
    ----------
    x : array_like or structure
        Of the same shapes and dtypes on all ranks.
    comm : mpi4py.MPI.Comm
        The communicator. All its ranks must call.

    Returns
    -------
    Of the structure and shapes of `x`.

    See Also
    --------
    value_and_grad

    Notes
    -----
    A derivative is the derivative of the sum, over all ranks, of what each rank's function returns.
    The cotangent of `x` is therefore the sum of the cotangents of all ranks: `psum`, too. A loss
    that every rank returns counts once for each rank; return each rank's own share instead, or
    divide by `comm.size`. The gradient in parameters that all ranks have alike is the sum of the
    ranks' gradients: `psum(gradient, comm)`.

    The order of the additions is that of MPI's `Allreduce`. It runs inside jitted functions, too.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> def share(x):  # of the squared distances from the mean of all ranks
    ...     mean = psum(np.sum(x), MPI.COMM_WORLD) / psum(x.size, MPI.COMM_WORLD)
    ...     return np.sum((x - mean) ** 2)
    >>> tracker.gradient(share, np.array([1.0, 3.0]))  # with one rank
    (array([-2.,  2.]),)
    """
    if not hasattr(comm, "Allreduce"):
        raise UnsupportedError(
            f"psum got a {type(comm).__name__} as the communicator",
            "Give an mpi4py.MPI.Comm: psum(x, MPI.COMM_WORLD)",
        )
    return tree.map(lambda leaf: _sum_leaf(leaf, comm), x)


def _sum_leaf(x: Any, comm: Any) -> Any:
    if type(x) is not Tracked:
        if not tree.is_numeric(x):
            raise UnsupportedError(
                f"psum got a {type(x).__name__}", "Give it numbers, arrays, or structures of them"
            )
        if current_tracer() is None:
            return _exchange.sum(x, comm)
        x = buffer(x)
    return apply(_psum, (x,), {"comm": comm})


class _Exchange(threading.local):
    """The sums of this thread, which a rolled back run repeats. As a generator of numbers, it has a
    state that `RollbackLog` restores: how many of `_sums` were handed out."""

    def __init__(self) -> None:
        self._sums: list[Any] = []
        self._position = 0

    def getstate(self) -> int:
        return self._position

    def setstate(self, position: int) -> None:
        self._position = position

    def forget(self) -> None:
        self._sums, self._position = [], 0

    def sum(self, x: Any, comm: Any) -> Any:
        before_draw(self)
        if self._position == len(self._sums):
            self._sums.append(_all_reduce(x, comm))
        total = self._sums[self._position]
        self._position += 1
        if self._position == len(self._sums) and not is_logged():
            self.forget()
        return total


_exchange = _Exchange()


def _all_reduce(x: Any, comm: Any) -> Any:
    given = np.asarray(x, order="C")
    if given.dtype.kind == "b":
        given = given.astype(int)
    total = np.empty_like(given)
    comm.Allreduce(given, total)
    return total[()]


_psum = define(
    "psum",
    numpy=[],
    method=None,
    entry=None,
    infer=lambda x, *, comm: Type(x.shape, np.dtype(int) if x.dtype.kind == "b" else x.dtype),
    evaluate=lambda x, *, comm: _exchange.sum(x, comm),
    jvp=[lambda t, y, x, *, comm: _sum_leaf(t, comm)],
    vjp=[lambda g, y, x, *, comm: _sum_leaf(g, comm)],
    lower=Host("MPI sums over the ranks", effect=True),
)
