"""Sparse Jacobians and Hessians: the pattern from the code, a product for each colour of columns.

`pattern.py` pushes index sets through what a run of the function has recorded (`rules.py`: kind by
kind of op), `colouring.py` groups columns, and `derivative.py` compiles one pass
that is mapped over the groups. Start at `jacobian`. Needs SciPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracker.autodiff.gradients import gradient
from tracker.errors import message

try:
    from tracker.sparse.derivative import SparseDerivative
except ImportError as error:
    if (error.name or "").partition(".")[0] != "scipy":
        raise
    raise ImportError(
        message("tracker.sparse needs SciPy", "pip install 'tracker-grad[scipy]'", "")
    ) from error

__all__ = ["SparseDerivative", "hessian", "jacobian"]


def jacobian(f: Callable[..., Any], *args: Any, argnum: int = 0) -> SparseDerivative:
    """The sparse Jacobian of `f`, as a function of the same arguments.

    Parameters
    ----------
    f : callable
        Gives an array or a number.
    *args
        An example point: its shapes, and the branches and positions that it leads to. No numbers
        of it are used for the pattern.
    argnum : int
        The argument to differentiate in, a real array: 1 for the `f(t, y)` of `solve_ivp`.

    Returns
    -------
    SparseDerivative
        A function that gives a `scipy.sparse.csr_array` of shape (f(x).size, x.size). `pattern` is
        the boolean array of its places, and `colours` has the colour of each column (of each row,
        if rows need fewer colours): as many products are computed as there are colours.

    See Also
    --------
    tracker.jacobian

    Notes
    -----
    The pattern holds for all values of the arguments. A call that takes another branch, or reads
    elements at other positions, gets a pattern of its own.

    Examples
    --------
    >>> J = jacobian(lambda x: x[1:] * x[:-1], np.ones(4))
    >>> J(np.array([1.0, 2.0, 3.0, 4.0])).toarray()
    array([[2., 1., 0., 0.],
           [0., 3., 2., 0.],
           [0., 0., 4., 3.]])
    >>> J.colours
    array([0, 1, 0, 1])
    """
    return SparseDerivative(f, args, argnum, False)


def hessian(f: Callable[..., Any], *args: Any, argnum: int = 0) -> SparseDerivative:
    """The sparse Hessian of a scalar function `f`, as a function of the same arguments.

    Parameters
    ----------
    f : callable
        Gives a real number.
    *args, argnum
        As for `jacobian`.

    Returns
    -------
    SparseDerivative
        As from `jacobian`, of shape (x.size, x.size). Where that saves colours, an entry is read
        from its mirror image: the colours of columns are then a star colouring.

    See Also
    --------
    tracker.hessian, tracker.hvp

    Examples
    --------
    >>> H = hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2), np.ones(3))
    >>> H(np.array([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    """
    return SparseDerivative(_Gradient(f, argnum), args, argnum, True)


class _Gradient:
    """The gradient of a function in one argument."""

    def __init__(self, f: Callable[..., Any], argnum: int) -> None:
        self.f, self.argnum = f, argnum

    def __call__(self, *args: Any) -> Any:
        return gradient(self.f, *args, argnums=self.argnum)


def __dir__() -> list[str]:
    return __all__
