"""Mistakes that type checkers find: each line is one, and an ignored error that does not occur is
an error."""

# pyright: standard
# ruff: noqa: B018

import numpy
from numpy.typing import NDArray

import tracker
import tracker.numpy as np
import tracker.scipy.special
from tracker import gradient, jit, pullback, value_and_grad, vmap

Array = NDArray[numpy.float64]


@jit
def dot(w: Array, x: Array) -> numpy.float64:
    return numpy.float64(numpy.sum(w * x))


def energy(x: Array) -> numpy.float64:
    return numpy.float64(numpy.sum(x**2))


class Model:
    @jit
    def loss(self, x: Array) -> numpy.float64:
        return energy(x)


def misspelt_names(w: Array) -> None:
    tracker.gradientt  # type: ignore[attr-defined]  # pyright: ignore
    tracker.debugg  # type: ignore[attr-defined]  # pyright: ignore
    tracker.nn.reluu  # type: ignore[attr-defined]  # pyright: ignore
    tracker.optim.adamm  # type: ignore[attr-defined]  # pyright: ignore
    tracker.special.sinpii  # type: ignore[attr-defined]  # pyright: ignore
    tracker.tree.leafs  # type: ignore[attr-defined]  # pyright: ignore
    tracker.testing.gradchek  # type: ignore[attr-defined]  # pyright: ignore
    np.sinn  # type: ignore[attr-defined]  # pyright: ignore
    np.linalg.normm  # type: ignore[attr-defined]  # pyright: ignore
    np.random.default_rngg  # type: ignore[attr-defined]  # pyright: ignore
    np.fft.ffft  # type: ignore[attr-defined]  # pyright: ignore
    tracker.scipy.specil  # type: ignore[attr-defined]  # pyright: ignore
    tracker.scipy.special.erff  # type: ignore[attr-defined]  # pyright: ignore
    tracker.scipy.stats.normm  # type: ignore[attr-defined]  # pyright: ignore
    tracker.scipy.linalg.expmm  # type: ignore[attr-defined]  # pyright: ignore
    dot.explian  # type: ignore[attr-defined]  # pyright: ignore
    dot.cache_info().tracs  # type: ignore[attr-defined]  # pyright: ignore


def arguments(w: Array) -> None:
    dot(w)  # type: ignore[call-arg]  # pyright: ignore
    dot(w, w, w)  # type: ignore[call-arg]  # pyright: ignore
    dot(w, y=w)  # type: ignore[call-arg]  # pyright: ignore
    dot("w", w)  # type: ignore[arg-type]  # pyright: ignore
    Model().loss()  # type: ignore[call-arg]  # pyright: ignore
    Model().loss(w, scale=2.0)  # type: ignore[call-arg]  # pyright: ignore
    dot.explain(w)  # type: ignore[call-arg]  # pyright: ignore
    tracker.trace(dot, w)  # type: ignore[call-arg]  # pyright: ignore
    gradient(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    gradient(energy, w, w)  # type: ignore[arg-type]  # pyright: ignore
    gradient(energy, w, scale=2.0)  # type: ignore[call-arg]  # pyright: ignore
    pullback(dot, w)  # type: ignore[call-arg]  # pyright: ignore
    value_and_grad(dot)(w)  # type: ignore[call-arg]  # pyright: ignore
    value_and_grad(energy)(w, w)  # type: ignore[call-arg]  # pyright: ignore
    value_and_grad(energy, has_axu=True)  # type: ignore[call-overload]  # pyright: ignore
    vmap(energy)(w, w)  # type: ignore[call-arg]  # pyright: ignore
    vmap(energy, in_axis=0)  # type: ignore[call-overload]  # pyright: ignore
    jit(strct=True)  # type: ignore[call-overload]  # pyright: ignore
    jit(energy, 3)  # type: ignore[call-overload]  # pyright: ignore
