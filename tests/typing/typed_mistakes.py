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


def rooted(x: Array) -> Array:
    return numpy.sqrt(x)


class Model:
    @jit
    def loss(self, x: Array) -> numpy.float64:
        return energy(x)

    @jit(strict=True)
    def scaled(self, x: Array, by: float = 2.0) -> Array:
        return x * by

    @classmethod
    @jit
    def ones(cls, x: Array) -> Array:
        return numpy.ones_like(x)

    @staticmethod
    @jit
    def norm(x: Array) -> numpy.float64:
        return numpy.float64(numpy.sqrt(numpy.sum(x**2)))


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
    Model().loss.explian  # type: ignore[attr-defined]  # pyright: ignore
    Model().scaled.cache_inf()  # type: ignore[attr-defined]  # pyright: ignore
    Model.ones.explian  # type: ignore[attr-defined]  # pyright: ignore
    Model().norm.explian  # type: ignore[attr-defined]  # pyright: ignore
    Model().loss.__self__.los  # type: ignore[attr-defined]  # pyright: ignore
    gradient(dot, w, w)[0].shap  # type: ignore[attr-defined]  # pyright: ignore
    tracker.withgradient(Model().loss, w).vall  # type: ignore[attr-defined]  # pyright: ignore
    value_and_grad(dot)(w, w)[1].shap  # type: ignore[attr-defined]  # pyright: ignore
    vmap(Model().scaled)(w).shap  # type: ignore[attr-defined]  # pyright: ignore
    pullback(Model.norm, w)[1](1.0)[0].shap  # type: ignore[attr-defined]  # pyright: ignore
    tracker.cond(True, Model.norm, energy, w).shap  # type: ignore[attr-defined]  # pyright: ignore
    tracker.update(w, 1.0).shap  # type: ignore[attr-defined]  # pyright: ignore
    tracker.optim.adam().updat  # type: ignore[attr-defined]  # pyright: ignore
    tracker.optim.adam().init(w).steps  # type: ignore[attr-defined]  # pyright: ignore
    tracker.tree.ravel(w)[0].shap  # type: ignore[attr-defined]  # pyright: ignore
    tracker.nn.conv(w, w).shap  # type: ignore[attr-defined]  # pyright: ignore


def arguments(w: Array) -> None:
    dot(w)  # type: ignore[call-arg]  # pyright: ignore
    dot(w, w, w)  # type: ignore[call-arg]  # pyright: ignore
    dot(w, y=w)  # type: ignore[call-arg]  # pyright: ignore
    dot("w", w)  # type: ignore[arg-type]  # pyright: ignore
    Model().loss()  # type: ignore[call-arg]  # pyright: ignore
    Model().loss(w, scale=2.0)  # type: ignore[call-arg]  # pyright: ignore
    Model().scaled(w, bye=3.0)  # type: ignore[call-arg]  # pyright: ignore
    Model().scaled(w, "3.0")  # type: ignore[arg-type]  # pyright: ignore
    Model.scaled(w)  # type: ignore[call-arg, arg-type]  # pyright: ignore
    Model.ones()  # type: ignore[call-arg]  # pyright: ignore
    Model().ones(w, w)  # type: ignore[call-arg]  # pyright: ignore
    Model().norm()  # type: ignore[call-arg]  # pyright: ignore
    dot.explain(w)  # type: ignore[call-arg]  # pyright: ignore
    dot.ir(w)  # type: ignore[call-overload]  # pyright: ignore
    Model().loss.explain(w)  # type: ignore[call-arg, arg-type]  # pyright: ignore
    Model().loss.profile(Model())  # type: ignore[call-arg]  # pyright: ignore
    tracker.trace(dot, w)  # type: ignore[call-arg]  # pyright: ignore
    gradient(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    gradient(energy, w, w)  # type: ignore[arg-type]  # pyright: ignore
    gradient(energy, w, scale=2.0)  # type: ignore[call-arg]  # pyright: ignore
    pullback(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    value_and_grad(dot)(w)  # type: ignore[call-arg]  # pyright: ignore
    value_and_grad(energy)(w, w)  # type: ignore[call-arg]  # pyright: ignore
    value_and_grad(energy, has_axu=True)  # type: ignore[call-overload]  # pyright: ignore
    gradient(Model().loss)  # type: ignore[call-overload]  # pyright: ignore
    gradient(Model().loss, w, w)  # type: ignore[arg-type]  # pyright: ignore
    gradient(Model().scaled, w, bye=3.0)  # type: ignore[call-arg]  # pyright: ignore
    gradient(Model.norm, "w")  # type: ignore[arg-type]  # pyright: ignore
    tracker.withgradient(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    value_and_grad(Model().scaled)(w, bye=3.0)  # type: ignore[call-arg]  # pyright: ignore
    tracker.jacobian(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    tracker.jacobian(Model().scaled, w, bye=3.0)  # type: ignore[call-arg]  # pyright: ignore
    tracker.pushforward(dot, w)  # type: ignore[call-overload]  # pyright: ignore
    tracker.hessian(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    tracker.checkpoint(dot, w)  # type: ignore[call-arg]  # pyright: ignore
    vmap(dot)(w)  # type: ignore[call-arg]  # pyright: ignore
    vmap(Model().scaled)(w, bye=3.0)  # type: ignore[call-arg]  # pyright: ignore
    tracker.track(energy)  # type: ignore[call-arg]  # pyright: ignore
    tracker.debug.explain(dot, w)  # type: ignore[arg-type]  # pyright: ignore
    tracker.debug.explain(energy, w)  # type: ignore[arg-type]  # pyright: ignore
    tracker.implicit.root(energy, rooted)  # type: ignore[arg-type]  # pyright: ignore
    tracker.implicit.root(dot, rooted)()  # type: ignore[call-arg]  # pyright: ignore
    tracker.nn.dropout(w, 0.5, rng=0)  # type: ignore[arg-type]  # pyright: ignore
    vmap(energy)(w, w)  # type: ignore[call-arg]  # pyright: ignore
    vmap(energy, in_axis=0)  # type: ignore[call-overload]  # pyright: ignore
    jit(strct=True)  # type: ignore[call-overload]  # pyright: ignore
    jit(static=1.5)  # type: ignore[call-overload]  # pyright: ignore
    jit(3)  # type: ignore[call-overload]  # pyright: ignore
    jit(energy, 3)  # type: ignore[call-overload]  # pyright: ignore
