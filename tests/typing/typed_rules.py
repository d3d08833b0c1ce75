"""Decorators that define rules keep the signatures of functions."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from tracker import custom_gradient, frule, ignore_derivatives, non_differentiable, rrule

Array = NDArray[np.float64]


@custom_gradient
def softplus(
    x: Array, sharpness: float = 1.0
) -> tuple[Array, Callable[[Array], tuple[Array, None]]]:
    def back(dy: Array) -> tuple[Array, None]:
        return dy / (1 + np.exp(-sharpness * x)), None

    return np.logaddexp(0.0, sharpness * x), back


@custom_gradient(host=True)
def looked_up(x: float) -> tuple[float, Callable[[float], tuple[float]]]:
    return x * 2.0, lambda dy: (dy * 2.0,)


@non_differentiable
def rank(x: Array) -> NDArray[np.intp]:
    return np.argsort(np.argsort(x))


def cube(x: float) -> float:
    return x * x * x


@rrule(cube)
def _(x: float) -> tuple[float, Callable[[float], tuple[float]]]:
    return x**3, lambda dy: (dy * 3 * x**2,)


@frule(cube)
def cube_forward(tangents: tuple[Any, ...], x: float) -> tuple[float, float]:
    return x**3, 3 * x**2 * tangents[0]


def uses(x: Array) -> None:
    assert_type(softplus(x), Array)
    assert_type(softplus(x, sharpness=2.0), Array)
    assert_type(looked_up(1.0), float)
    assert_type(rank(x), NDArray[np.intp])
    assert_type(ignore_derivatives(x), Array)
    assert_type(cube_forward((1.0,), 2.0), tuple[float, float])
    with ignore_derivatives():
        softplus(x)
