"""Activations, softmax and its logarithm: stable at extremes, float32 stays float32.

Plain NumPy on tracked or plain arrays, so they differentiate to any order and compile. At a kink
the derivative is that of the left side (relu: 0), as in other libraries; see
`docs/explanation/conventions.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ops.declare.arguments import as_array
from tracker.ops.elementwise.activation import sigmoid as sigmoid_op
from tracker.ops.reduce.softmax import apply_to_real
from tracker.ops.reduce.softmax import logsoftmax as logsoftmax_op
from tracker.ops.reduce.softmax import logsumexp as logsumexp_op
from tracker.ops.reduce.softmax import softmax as softmax_op
from tracker.tape.record import apply

Axis = int | tuple[int, ...] | None


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), elementwise: the logistic function.

    Parameters
    ----------
    x : array_like
        Any shape.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> sigmoid(0.0)
    np.float64(0.5)
    """
    return apply(sigmoid_op, (as_array(x),))


def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x)) = -log(1 + exp(-x)), elementwise, without overflow.

    Parameters
    ----------
    x : array_like
        Any shape.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> logsigmoid(-1000.0)
    np.float64(-1000.0)
    """
    return -softplus(-as_array(x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), elementwise, without overflow.

    Parameters
    ----------
    x : array_like
        Any shape.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> softplus(1000.0)
    np.float64(1000.0)
    """
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        return np.logaddexp(as_array(x), 0.0)


def relu(x: Any) -> Any:
    """max(x, 0), elementwise; its derivative at 0 is 0. NaN stays NaN.

    Parameters
    ----------
    x : array_like
        Any shape.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    x = as_array(x)
    return np.where(x <= 0, np.zeros_like(x), x)


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """x where x > 0, else slope * x (Maas, Hannun, Ng, 2013).

    Parameters
    ----------
    x : array_like
        Any shape.
    slope : float
        The derivative to the left of 0, and at 0.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> leaky_relu(np.array([-1.0, 2.0]), 0.25)
    array([-0.25,  2.  ])
    """
    x = as_array(x)
    return np.where(x > 0, x, slope * x)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1) (Clevert, Unterthiner, Hochreiter, 2016).

    Parameters
    ----------
    x : array_like
        Any shape.
    alpha : float
        The derivative at 0, which is that of the left side.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> elu(np.array([0.0, 2.0]))
    array([0., 2.])
    """
    x = as_array(x)
    below = np.where(x > 0, np.zeros_like(x), x)
    return np.where(x > 0, x, alpha * np.expm1(below))


def gelu(x: Any, *, approximate: bool = True) -> Any:
    """x * Phi(x), Phi the normal distribution function (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x : array_like
        Any shape.
    approximate : bool
        Whether to take Phi(x) = sigmoid(2 sqrt(2/pi) (x + 0.044715 x**3)), which is within 5e-4.
        False needs SciPy.

    Returns
    -------
    Of the shape and float dtype of `x`.

    Examples
    --------
    >>> gelu(0.0)
    np.float64(0.0)
    """
    x = as_array(x)
    if approximate:
        inner = np.clip(x, -20.0, 20.0)  # Phi is 0 or 1 beyond, and a cube overflows
        return x * sigmoid(1.5957691216057308 * inner * (1 + 0.044715 * inner * inner))
    from scipy import special

    return x * (0.5 * special.erfc(-0.7071067811865476 * x))


def softmax(x: Any, axis: Axis = -1) -> Any:
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    Parameters
    ----------
    x : array_like
        Any shape.
    axis : int or tuple of int
        The axis of the sum; None: all of them.

    Returns
    -------
    Of the shape of `x`.

    Examples
    --------
    >>> softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    return apply_to_real(softmax_op, as_array(x), axis, shared=False)


def logsoftmax(x: Any, axis: Axis = -1) -> Any:
    """log(softmax(x)) along an axis: x - logsumexp(x), without overflow.

    Parameters
    ----------
    x : array_like
        Any shape.
    axis : int or tuple of int
        The axis of the sum; None: all of them.

    Returns
    -------
    Of the shape of `x`.

    Examples
    --------
    >>> logsoftmax(np.array([-1000.0, 0.0]))
    array([-1000.,     0.])
    """
    return apply_to_real(logsoftmax_op, as_array(x), axis)


def logsumexp(x: Any, axis: Axis = -1, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) along an axis, without overflow; -inf where all entries are -inf.

    Parameters
    ----------
    x : array_like
        Any shape.
    axis : int or tuple of int
        The axis of the sum; None: all of them.
    keepdims : bool
        Whether it is kept, with extent 1.

    Returns
    -------
    Of the shape of `x` without the axis.

    Examples
    --------
    >>> logsumexp(np.array([1000.0, -np.inf]))
    np.float64(1000.0)
    """
    y = apply_to_real(logsumexp_op, as_array(x), axis)
    if keepdims:
        return y
    return (np.reshape(y, ()) if axis is None else np.squeeze(y, axis))[()]
