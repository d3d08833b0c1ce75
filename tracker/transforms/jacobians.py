"""Derivatives that are matrices: jacobians, hessians, and products with hessians.

The function runs once; `vmap` applies its pullback or pushforward to all basis vectors in one pass
(`_apply_to_basis`).

Complex numbers: for a complex result the entries are holomorphic derivatives dy/dx; for a real
result the rows are gradients, dy/dx.real + i dy/dx.imag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tracker import tree
from tracker.autodiff.boundary import (
    compiled_derivative,
    convert_array_likes,
    gradient_entry,
    is_number_or_array,
    stack_nested,
)
from tracker.autodiff.gradients import ValueAndGradient, gradient, require_arguments, run_for_params
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.params import Grads, Params
from tracker.autodiff.pullbacks import jvp, linearize, pullback, pushforward
from tracker.autodiff.reverse import reverse_sweep
from tracker.errors import NotScalarError, NotTrackedError
from tracker.tape.record import aval_of, value_of
from tracker.tape.tracked import Tracked
from tracker.transforms.vmap import vmap_pure

if TYPE_CHECKING:
    from tracker.support.type_variables import (
        A,
        AnyArray,
        B,
        C,
        FloatArray,
        NumberList,
        P,
        R,
        T,
        V,
        X,
        Y,
        Z,
    )

_VMAP_THRESHOLD = 3  # unit vectors; up to here they are passed one by one
_COMPUTED_BASIS_SIZE = 200  # unit vectors; above, computing them is faster than reading them


@overload
def jacobian(  # type: ignore[overload-overlap]  # no call fits two
    f: Callable[[], Any], params: Params, /, *, shaped: bool = False
) -> Grads: ...
@overload
def jacobian(
    f: Callable[[FloatArray], Any], x: NumberList, /, *, shaped: bool = False
) -> tuple[AnyArray]: ...
@overload
def jacobian(f: Callable[[X], Any], x: X, /, *, shaped: bool = False) -> tuple[AnyArray]: ...
@overload
def jacobian(
    f: Callable[[X, Y], Any], x: X, y: Y, /, *, shaped: bool = False
) -> tuple[AnyArray, AnyArray]: ...
@overload
def jacobian(
    f: Callable[[X, Y, Z], Any], x: X, y: Y, z: Z, /, *, shaped: bool = False
) -> tuple[AnyArray, AnyArray, AnyArray]: ...
@overload
def jacobian(f: Callable[..., Any], *args: Any, shaped: bool) -> tuple[Any, ...]: ...
@overload
def jacobian(f: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> tuple[Any, ...]: ...
def jacobian(f: Callable[..., Any], *args: Any, shaped: bool = False) -> Any:  # type: ignore[misc]  # takes no keywords of `f`
    """The matrices of all first derivatives: a tuple, one entry per argument.

    Parameters
    ----------
    f : callable
        Its result is a number, an array, or a list of numbers, which counts as an array.
    *args
        The point; or `Params`, for an `f` without arguments.
    shaped : bool
        Give entries of shape `y.shape + a.shape`, rather than matrices.

    Returns
    -------
    tuple
        For an array argument `a` the matrix (y.size, a.size), both in C order; for a number the
        vector (y.size,), zeros where it was only an axis, a count or a flag; None for other
        arguments. A number y has one row. For `Params`, a `Grads`.

    See Also
    --------
    withjacobian, gradient, jvp, pullback

    Notes
    -----
    Forward mode, one pass for each element of the arguments, or reverse mode, one for each element
    of the result: whichever needs fewer. The passes of one mode run as one, mapped by `vmap`.

    Examples
    --------
    >>> jacobian(lambda x: x * x[0], [1.0, 2.0])
    (array([[2., 0.],
           [2., 1.]]),)
    """
    return withjacobian(f, *args, shaped=shaped).grad


@overload
def withjacobian(  # type: ignore[overload-overlap]  # no call fits two
    f: Callable[[], R], params: Params, /, *, shaped: bool = False
) -> ValueAndGradient[R, Grads]: ...
@overload
def withjacobian(
    f: Callable[[FloatArray], R], x: NumberList, /, *, shaped: bool = False
) -> ValueAndGradient[R, tuple[AnyArray]]: ...
@overload
def withjacobian(
    f: Callable[[X], R], x: X, /, *, shaped: bool = False
) -> ValueAndGradient[R, tuple[AnyArray]]: ...
@overload
def withjacobian(
    f: Callable[[X, Y], R], x: X, y: Y, /, *, shaped: bool = False
) -> ValueAndGradient[R, tuple[AnyArray, AnyArray]]: ...
@overload
def withjacobian(
    f: Callable[[X, Y, Z], R], x: X, y: Y, z: Z, /, *, shaped: bool = False
) -> ValueAndGradient[R, tuple[AnyArray, AnyArray, AnyArray]]: ...
@overload
def withjacobian(
    f: Callable[..., R], *args: Any, shaped: bool
) -> ValueAndGradient[R, tuple[Any, ...]]: ...
@overload
def withjacobian(
    f: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> ValueAndGradient[R, tuple[Any, ...]]: ...
def withjacobian(f: Callable[..., Any], *args: Any, shaped: bool = False) -> Any:  # type: ignore[misc]  # takes no keywords of `f`
    """The value and the jacobian of `f`, as a named tuple (val, grad).

    Parameters
    ----------
    f, *args, shaped
        As for `jacobian`.

    Returns
    -------
    val
        The result of `f`, plain.
    grad : tuple
        As from `jacobian`.

    Examples
    --------
    >>> withjacobian(lambda t: [t, t**2], 3.0)
    (val=array([3., 9.]), grad=(array([1., 6.]),))
    """
    if len(args) == 1 and isinstance(args[0], Params):
        params = args[0]
        y, found = _params_jacobian(f, params, shaped)
        return ValueAndGradient(y, Grads(params, found))
    if not args:
        require_arguments(f, "jacobian", {})
    args = _array_arguments(args, "jacobian")
    compiled = compiled_derivative(
        f, ("withjacobian", shaped), lambda g: lambda *xs: withjacobian(g, *xs, shaped=shaped)
    )
    if compiled is not None:
        return compiled(*args)
    moving = [i for i, a in enumerate(args) if tree.is_numeric(aval_of(a))]
    y, pull, push = linearize(lambda *xs: stack_nested(f(*xs)), args, {})
    _check_output(y)
    size = sum(np.size(args[i]) for i in moving)
    if np.iscomplexobj(y) or (size < np.size(y) and not any(map(np.iscomplexobj, args))):
        matrices = {i: _by_columns(push, args, i) for i in moving}
    else:
        matrices = _by_rows(pull, y, moving)
    entries = [_shape_result(matrices.get(i), y, a, shaped) for i, a in enumerate(args)]
    return ValueAndGradient(y, tuple(entries))


def _array_arguments(args: tuple[Any, ...], caller: str) -> tuple[Any, ...]:
    """The arguments of a matrix derivative, with lists of numbers and foreign objects as arrays.
    Raises if none is a number or an array."""
    if all(map(is_number_or_array, args)):
        return args
    made = tuple(
        np.array(a) if tree.is_number_list(a) else convert_array_likes(a, at)
        for at, a in enumerate(args)
    )
    if made and not any(tree.is_numeric(aval_of(a)) for a in made):
        shown = ", ".join(f"argument {at} is a {type(a).__name__}" for at, a in enumerate(made))
        raise NotTrackedError(
            f"{caller} needs a number or an array; {shown}",
            "Give arrays: those of a structure are joined by tracker.tree.ravel; or use "
            "tracker.gradient, pullback and jvp, which follow structures",
        )
    return made


def _check_output(y: Any) -> None:
    if not tree.is_numeric(aval_of(y)):
        raise NotScalarError(
            f"jacobian needs a number or an array; the output is a {type(y).__name__}",
            "Join the results with np.concatenate, or use tracker.pullback",
        )


def _apply_to_basis(linear: Callable[[Any], Any], x: Any) -> Any:
    """The stacked results of a linear function at each unit vector of x's space, in C order; None
    if x is empty."""
    size = np.size(x)
    if not size:
        return None
    units = np.reshape(_basis(x), (size, *np.shape(x)))
    if size > _VMAP_THRESHOLD:
        return vmap_pure(linear, units)
    return tree.map(lambda *rows: np.stack(rows), *(linear(unit) for unit in units))


def _basis(x: Any) -> Any:
    """The identity matrix of x's space. A large one is recorded if x is tracked: compiled code
    computes it instead of reading it."""
    kind = np.result_type(aval_of(x))
    dtype = kind if kind.kind in "fc" else np.dtype(float)
    if isinstance(x, Tracked) and np.size(x) > _COMPUTED_BASIS_SIZE:
        return np.diag(np.ones_like(np.reshape(x, (-1,)), dtype=dtype))
    return np.eye(np.size(x), dtype=dtype)


def _by_columns(push: Callable[..., Any], args: tuple[Any, ...], at: int) -> Any:
    rows = _apply_to_basis(
        lambda unit: np.ravel(push(*(unit if i == at else None for i in range(len(args))))),
        args[at],
    )
    return None if rows is None else np.transpose(rows)


def _by_rows(pull: Callable[..., Any], y: Any, moving: list[int]) -> dict[int, Any]:
    def reached(unit: Any) -> dict[int, Any]:
        found = pull(unit)
        return {i: np.ravel(found[i]) for i in moving if found[i] is not None}

    return _apply_to_basis(reached, y) or {}


def _shape_result(matrix: Any, y: Any, x: Any, shaped: bool) -> Any:
    """A matrix (y.size, x.size) in the shape that the user gets; zeros if it is None."""
    if not tree.is_numeric(aval_of(x)):
        return None
    if matrix is None:
        matrix = np.zeros((np.size(y), np.size(x)))
    if shaped:
        return np.reshape(matrix, np.shape(y) + np.shape(x))
    return matrix if np.ndim(x) else np.reshape(matrix, (-1,))


def _params_jacobian(f: Callable[..., Any], params: Params, shaped: bool) -> tuple[Any, list[Any]]:
    """The value and the jacobian with respect to params, from one run."""
    leaves = params.leaves()
    y = stack_nested(run_for_params(f, "jacobian"))
    _check_output(y)
    matrices: dict[int, Any] = {}
    if isinstance(y, Tracked):
        root = value_of(y)

        def reached(unit: Any) -> dict[int, Any]:
            found = zip(reverse_sweep([(root, unit)], leaves), leaves, strict=True)
            return {
                k: np.ravel(gradient_entry(c, x)) for k, (c, x) in enumerate(found) if c is not None
            }

        matrices = _apply_to_basis(reached, y) or {}
    return plain_data(y), [
        _shape_result(matrices.get(k), y, p, shaped) for k, p in enumerate(params)
    ]


# Second derivatives -------------------------------------------------------------------------------


def _gradient_function(f: Callable[..., Any]) -> Callable[[Any], Any]:
    def slope(x: Any) -> Any:
        (g,) = gradient(f, x)
        return g

    return slope


def _compiled_derivative(
    f: Callable[..., Any], derivative: Callable[..., Any]
) -> Callable[..., Any] | None:
    """The compiled derivative of a jitted function; None for a plain one."""
    return compiled_derivative(f, derivative.__name__, lambda g: lambda *args: derivative(g, *args))


def _as_array(x: Any) -> Any:
    """A list of numbers as an array of floats, a foreign object as the array that it offers."""
    return np.array(x, dtype=float) if tree.is_number_list(x) else convert_array_likes(x, 0)


@overload
def hessian(f: Callable[[FloatArray], Any], x: NumberList) -> AnyArray: ...
@overload
def hessian(f: Callable[[float], Any], x: float) -> float: ...
@overload
def hessian(f: Callable[[V], Any], x: V) -> AnyArray: ...
@overload
def hessian(f: Callable[[T], Any], x: T) -> Any: ...
def hessian(f: Callable[..., Any], x: Any) -> Any:
    """All second derivatives of a scalar function: (n, n) in C order, a number for a number.

    Parameters
    ----------
    f : callable
        A function of one argument, whose result is a real scalar.
    x : array_like
        The point, of n elements.

    Returns
    -------
    ndarray or float
        Shape (n, n), or a number for a number `x`.

    Raises
    ------
    NotScalarError
        The result of `f` is an array.

    See Also
    --------
    hvp, diaghessian, hessian_reverse

    Notes
    -----
    Forward mode over reverse mode.

    Examples
    --------
    >>> hessian(lambda x: np.prod(x), [2.0, 3.0])
    array([[0., 1.],
           [1., 0.]])
    """
    return _hessian_by(hessian, _pushforward_map, f, x)


@overload
def hessian_reverse(f: Callable[[FloatArray], Any], x: NumberList) -> AnyArray: ...
@overload
def hessian_reverse(f: Callable[[float], Any], x: float) -> float: ...
@overload
def hessian_reverse(f: Callable[[V], Any], x: V) -> AnyArray: ...
@overload
def hessian_reverse(f: Callable[[T], Any], x: T) -> Any: ...
def hessian_reverse(f: Callable[..., Any], x: Any) -> Any:
    """As `hessian`, by reverse over reverse mode.

    Parameters
    ----------
    f, x
        As for `hessian`.

    Returns
    -------
    ndarray or float
        As from `hessian`.

    Examples
    --------
    >>> hessian_reverse(lambda x: np.prod(x), [2.0, 3.0])
    array([[0., 1.],
           [1., 0.]])
    """
    return _hessian_by(hessian_reverse, _pullback_map, f, x)


def _hessian_by(
    derivative: Callable[..., Any],
    linear_map: Callable[..., Callable[[Any], Any]],
    f: Callable[..., Any],
    x: Any,
) -> Any:
    if type(x) is not np.ndarray:
        (x,) = _array_arguments((_as_array(x),), derivative.__name__)
    compiled = _compiled_derivative(f, derivative)
    if compiled is not None:
        return compiled(x)
    rows = _apply_to_basis(linear_map(_gradient_function(f), x), x)
    if rows is None:
        return np.zeros((0, 0))
    return rows if np.ndim(x) else rows[0, 0]


def _pushforward_map(f: Callable[..., Any], x: Any) -> Callable[[Any], Any]:
    _, push = pushforward(f, x)
    return lambda unit: np.ravel(push(unit))


def _pullback_map(f: Callable[..., Any], x: Any) -> Callable[[Any], Any]:
    _, pull = pullback(f, x)
    return lambda unit: np.ravel(pull(unit)[0])


@overload
def diaghessian(f: Callable[[FloatArray], Any], x: NumberList, /) -> tuple[FloatArray]: ...
@overload
def diaghessian(f: Callable[[float], Any], x: float, /) -> tuple[float]: ...
@overload
def diaghessian(f: Callable[[A], Any], x: A, /) -> tuple[A]: ...
@overload
def diaghessian(f: Callable[[A, B], Any], x: A, y: B, /) -> tuple[A, B]: ...
@overload
def diaghessian(f: Callable[[A, B, C], Any], x: A, y: B, z: C, /) -> tuple[A, B, C]: ...
@overload
def diaghessian(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]: ...
def diaghessian(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The diagonals of the hessians: an entry of the argument's shape for each argument.

    Parameters
    ----------
    f : callable
        Its result is a real scalar.
    *args : array_like
        The point.

    Returns
    -------
    tuple
        For each argument its second derivatives d2f/da_i2, of the argument's shape.

    See Also
    --------
    hessian

    Examples
    --------
    >>> diaghessian(lambda x, y: np.sum(x**3) * y**2, [1.0, 2.0], 3.0)
    (array([ 54., 108.]), np.float64(18.0))
    """
    if not all(map(is_number_or_array, args)):
        args = _array_arguments(tuple(map(_as_array, args)), "diaghessian")
    compiled = _compiled_derivative(f, diaghessian)
    if compiled is not None:
        return compiled(*args)  # type: ignore[no-any-return]
    out: list[Any] = []
    for at, x in enumerate(args):
        if not tree.is_numeric(aval_of(x)):
            out.append(None)
            continue

        def alone(varied: Any, at: int = at) -> Any:
            return f(*(varied if i == at else a for i, a in enumerate(args)))

        rows = _apply_to_basis(_pushforward_map(_gradient_function(alone), x), x)
        if rows is None:
            out.append(np.zeros(np.shape(x)))
        else:
            diagonal = np.copy(np.diagonal(rows))
            out.append(np.reshape(diagonal, np.shape(x)) if np.ndim(x) else diagonal[0])
    return tuple(out)


@overload
def hvp(
    f: Callable[[FloatArray], Any], x: NumberList, v: FloatArray | NumberList
) -> FloatArray: ...
@overload
def hvp(f: Callable[[float], Any], x: float, v: float) -> float: ...
@overload
def hvp(f: Callable[[A], Any], x: A, v: A | NumberList) -> A: ...
@overload
def hvp(f: Callable[[T], Any], x: T, v: Any) -> Any: ...
def hvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """The hessian of `f` at `x` times `v`, in the structure of `x`; no matrix is made.

    Parameters
    ----------
    f : callable
        A function of one argument, whose result is a real scalar.
    x
        The point: an array, a number or a structure of them.
    v
        The vector, of the structure and shapes of `x`.

    Returns
    -------
    Of the structure and shapes of `x`.

    See Also
    --------
    hessian

    Notes
    -----
    Forward mode over reverse mode, as in [1]_: a small multiple of the cost of `f`.

    References
    ----------
    .. [1] B. Pearlmutter, Fast exact multiplication by the Hessian, Neural Computation 6 (1994).

    Examples
    --------
    >>> hvp(lambda x: np.prod(x), [2.0, 3.0], [1.0, 0.0])
    array([0., 1.])
    """
    if type(x) is not np.ndarray:
        x = _as_array(x)
    if type(v) is not np.ndarray:
        v = _as_array(v)
    compiled = _compiled_derivative(f, hvp)
    if compiled is not None:
        return compiled(x, v)
    return jvp(_gradient_function(f), (x,), (v,))[1]
