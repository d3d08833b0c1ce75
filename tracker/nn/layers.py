"""Dropout, batch normalisation, and the cross entropy loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tracker.errors import message
from tracker.nn.activations import logsoftmax
from tracker.ops.declare.arguments import as_array
from tracker.tape.record import aval_of, data_of

if TYPE_CHECKING:
    from tracker.support.type_variables import AnyArray


def dropout(x: Any, p: float, *, rng: np.random.Generator | np.random.RandomState) -> AnyArray:
    """Each entry is 0 with probability `p`, and else divided by 1 - p.

    Parameters
    ----------
    x : array_like
        Any shape.
    p : float
        In [0, 1).
    rng : numpy.random.Generator or numpy.random.RandomState
        One uniform number is drawn per entry, anew in every call, compiled or not.

    Returns
    -------
    Of the shape of `x`.

    Notes
    -----
    As in [1]_, scaled in training rather than in use.

    References
    ----------
    .. [1] N. Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting,
       2014.

    Examples
    --------
    >>> dropout(np.ones(4), 0.5, rng=np.random.default_rng(0))
    array([2., 0., 0., 0.])
    """
    x = as_array(x)
    if not (p >= 0.0 and p <= 1.0):
        raise ValueError(message(f"dropout with p={data_of(p)}", "Give a probability"))
    drawn = rng.random(np.shape(x))
    kept = drawn >= p
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    return np.where(kept, x * scale, np.zeros_like(x))  # type: ignore[no-any-return]


def batchnorm(
    x: Any,
    scale: Any,
    shift: Any,
    mean: Any = None,
    var: Any = None,
    *,
    axis: int = 1,
    eps: float = 1e-5,
) -> AnyArray:
    """(x - mean) / sqrt(var + eps) * scale + shift, per channel.

    Parameters
    ----------
    x : array_like
        The channels lie along `axis`.
    scale, shift : array_like
        One entry per channel.
    mean, var : array_like, optional
        One entry per channel: running ones, in use. Without them those of the batch are taken
        (training).
    axis : int
        The axis of the channels.
    eps : float
        Added to the variance.

    Returns
    -------
    Of the shape of `x`.

    Notes
    -----
    Batch normalisation [1]_.

    References
    ----------
    .. [1] S. Ioffe and C. Szegedy, Batch normalization, 2015.

    Examples
    --------
    >>> batchnorm(np.array([[1.0], [3.0]]), np.ones(1), np.zeros(1), eps=0.0)
    array([[-1.],
           [ 1.]])
    """
    x = as_array(x)
    if (mean is None) != (var is None):
        raise ValueError(message("batchnorm with only one of mean and var", "Give both, or none"))
    shape = [1] * np.ndim(x)
    shape[axis] = np.shape(x)[axis]

    def along_axis(v: Any) -> Any:
        if np.shape(v) != (shape[axis],):
            raise ValueError(
                message(f"batchnorm of {shape[axis]} channels got a shape {np.shape(v)}")
            )
        return np.reshape(v, shape)

    if mean is None:
        others = tuple(i for i in range(np.ndim(x)) if i != axis % np.ndim(x))
        centred = x - np.mean(x, axis=others, keepdims=True)
        variance = np.mean(centred * centred, axis=others, keepdims=True)
    else:
        centred, variance = x - along_axis(mean), along_axis(var)
    return centred / np.sqrt(variance + eps) * along_axis(scale) + along_axis(shift)  # type: ignore[no-any-return]


def crossentropy(
    logits: Any, labels: Any, *, axis: int = -1, reduction: Literal["mean", "sum", "none"] = "mean"
) -> Any:
    """-sum(labels * logsoftmax(logits)) along an axis, averaged over everything else.

    Parameters
    ----------
    logits : array_like
        The classes lie along `axis`.
    labels : array_like
        Probabilities (or one-hot), of the logits' shape; or integers, the numbers of the classes,
        of that shape without the axis.
    axis : int
        The axis of the classes.
    reduction : {'mean', 'sum', 'none'}
        What is done over everything else.

    Returns
    -------
    A number; for 'none' an array of the logits' shape without the axis.

    Examples
    --------
    >>> crossentropy(np.array([[0.0, 0.0]]), [1])
    np.float64(0.6931471805599453)
    """
    logits, labels = as_array(logits), as_array(labels)
    shape = list(np.shape(logits))
    classes = shape.pop(axis) if shape else 0
    log_probabilities = logsoftmax(logits, axis) if classes else logits
    is_number = np.result_type(aval_of(labels)).kind in "iu"
    if is_number and np.shape(labels) == tuple(shape):
        _check_classes(labels, classes)
        indices = np.expand_dims(labels, axis)
        losses = -np.squeeze(np.take_along_axis(log_probabilities, indices, axis), axis)
    elif np.shape(labels) == np.shape(logits):
        losses = -np.sum(labels * log_probabilities, axis=axis)
    else:
        raise ValueError(
            message(
                f"crossentropy of logits of shape {np.shape(logits)} with labels of shape "
                f"{np.shape(labels)}, dtype {np.result_type(aval_of(labels))}",
                f"Give probabilities of the logits' shape, or integers of shape {tuple(shape)}",
            )
        )
    if reduction == "mean":
        return np.mean(losses)
    if reduction == "sum":
        return np.sum(losses)
    if reduction == "none":
        return losses
    raise ValueError(message(f"reduction={reduction!r}", "Give 'mean', 'sum' or 'none'"))


def _check_classes(labels: Any, classes: int) -> None:
    """Raise for labels out of range; NumPy would take -1 for the last class."""
    if bool(np.any((labels < 0) | (labels >= classes))):
        raise IndexError(message(f"a label lies outside of the {classes} classes 0..{classes - 1}"))
