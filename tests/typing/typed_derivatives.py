"""Derivatives have the types of what they are taken with respect to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import tracker
from tracker import (
    checkpoint,
    diaghessian,
    gradient,
    hessian,
    hessian_reverse,
    hvp,
    jacobian,
    jvp,
    pullback,
    pushforward,
    value_and_grad,
    vmap,
    withgradient,
    withjacobian,
)

Array = NDArray[np.float64]


def loss(w: Array, x: Array, power: int = 2) -> np.float64:
    return np.float64(np.sum(w * x) ** power)


def energy(x: Array) -> np.float64:
    return np.float64(np.sum(x**2))


def rows(x: Array) -> Array:
    return x[::2] * 2.0


@dataclass
class Dense:
    weight: Array
    bias: Array

    def loss(self, x: Array) -> np.float64:
        return energy(self.weight @ x + self.bias)


def layer_loss(layer: Dense, x: Array) -> np.float64:
    return layer.loss(x)


def of_arrays(w: Array, x: Array) -> None:
    assert_type(gradient(energy, w), tuple[Array])
    assert_type(gradient(loss, w, x), tuple[Array, Array])
    assert_type(gradient(loss, w, x, power=3), tuple[Any, ...])
    assert_type(gradient(loss, w, x, argnums=(0,)), tuple[Any, ...])
    assert_type(gradient(energy, w, check_finite=False), tuple[Array])
    assert_type(gradient(energy, [1, 2, 3]), tuple[Array])
    assert_type(gradient(lambda x: x * np.sin(x), 2.0), tuple[float])
    assert_type(withgradient(energy, w).val, np.float64)
    assert_type(withgradient(energy, w).grad, tuple[Array])
    value, slopes = withgradient(energy, w)
    (slope,) = slopes
    assert_type(value, np.float64)
    assert_type(slope, Array)


def of_structures(layer: Dense, x: Array, layers: list[Dense]) -> None:
    assert_type(gradient(layer_loss, layer, x), tuple[Dense, Array])
    assert_type(gradient(layer.loss, x), tuple[Array])
    assert_type(gradient(lambda m: m.loss(x), layer), tuple[Dense])
    assert_type(gradient(lambda m: m[0].loss(x), layers), tuple[list[Dense]])
    assert_type(gradient(lambda pair: energy(pair[0]), (x, x)), tuple[tuple[Array, Array]])


def of_params(x: Array) -> None:
    w = tracker.param(x)
    grads = gradient(lambda: w @ w, tracker.Params([w]))
    assert_type(grads, tracker.Grads)
    assert_type(tracker.istracked(w), bool)


def curried(layer: Dense, w: Array, x: Array) -> None:
    assert_type(value_and_grad(energy)(w), tuple[np.float64, Array])
    assert_type(value_and_grad(loss)(w, x=x, power=3), tuple[np.float64, Array])
    assert_type(value_and_grad(layer_loss)(layer, x), tuple[np.float64, Dense])
    assert_type(value_and_grad(loss, 0)(w, x), tuple[np.float64, Array])
    assert_type(value_and_grad(loss, 1)(w, x), tuple[np.float64, Any])
    assert_type(value_and_grad(loss, argnums=(0, 1))(w, x), tuple[np.float64, tuple[Any, ...]])
    objective: Callable[[Array], tuple[np.float64, Array]] = value_and_grad(energy)
    objective(w)


def of_vectors(w: Array, x: Array) -> None:
    assert_type(jacobian(rows, w), tuple[NDArray[Any]])
    assert_type(jacobian(loss, w, x), tuple[NDArray[Any], NDArray[Any]])
    assert_type(jacobian(loss, w, x, shaped=True), tuple[NDArray[Any], NDArray[Any]])
    assert_type(jacobian(lambda t: t * x, 2.0), tuple[NDArray[Any]])
    assert_type(jacobian(rows, w, shaped=True), tuple[NDArray[Any]])
    assert_type(withjacobian(rows, w).val, Array)
    assert_type(withjacobian(loss, w, x).grad, tuple[NDArray[Any], NDArray[Any]])
    assert_type(hessian(energy, w), NDArray[Any])
    assert_type(hessian(energy, [1, 2]), NDArray[Any])
    assert_type(hessian(lambda x: x**3, 2.0), float)
    assert_type(hessian_reverse(energy, w), NDArray[Any])
    assert_type(diaghessian(energy, w), tuple[Array])
    assert_type(diaghessian(loss, w, x), tuple[Array, Array])
    assert_type(diaghessian(energy, [1, 2]), tuple[Array])
    assert_type(hvp(energy, w, x), Array)
    assert_type(hvp(energy, [1.0, 2.0], [1.0, 0.0]), Array)
    assert_type(hvp(lambda p: energy(p[0]), (w, x), (x, w)), tuple[Array, Array])


def linear_maps(w: Array, x: Array) -> None:
    assert_type(jvp(rows, (w,), (x,)), tuple[Array, Array])
    assert_type(jvp(loss, (w, x), (x, None)), tuple[np.float64, np.float64])
    assert_type(jvp(loss, [w, x], [x, w]), tuple[np.float64, np.float64])
    y, back = pullback(loss, w, x, power=1)
    assert_type(y, np.float64)
    assert_type(back(1.0), tuple[Any, ...])
    assert_type(pullback(loss, w, x)[1](1.0), tuple[Array, Array])
    assert_type(pullback(lambda x: x * 2.0, 3.0)[1](1.0), tuple[float])
    z, push = pushforward(loss, w, x)
    assert_type(z, np.float64)
    assert_type(push(x, None), np.float64)
    assert_type(pushforward(rows, [1.0, 2.0])[0], Array)


def mapped(w: Array, batch: Array) -> None:
    assert_type(vmap(rows)(batch), Array)
    assert_type(vmap(energy)(batch), NDArray[Any])
    assert_type(vmap(loss, in_axes=(None, 0))(w, batch), NDArray[Any])
    assert_type(checkpoint(rows, batch), Array)
    assert_type(tracker.gradcheck(energy, w), bool)


def with_lambdas(w: Array) -> None:
    gradient(lambda a: np.sum(a**2) + np.prod(a[1:]), w)
    gradient(lambda a: np.sum(a**2) + np.prod(a[1:]), [1, 2, 3])
    gradient(lambda a, b: np.sum(a * b), w, w)
    value_and_grad(lambda a: a @ a)(w)
    jacobian(lambda a: a * 2.0, w)
    hessian(lambda a: np.sum(a**3), w)
