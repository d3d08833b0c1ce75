"""`jit` keeps the signature: of functions, methods, class methods, static methods."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import tracker
from tracker import Jitted, jit

Array = NDArray[np.float64]


@jit
def dot(w: Array, x: Array) -> np.float64:
    return np.float64(np.sum(w * x))


@jit(strict=True, static="power", max_traces=4)
def raised(w: Array, power: int = 2) -> Array:
    return w**power


@jit
def square(x: float) -> float:
    return x * x


@dataclass
class Model:
    weight: Array

    @jit
    def loss(self, x: Array, scale: float = 1.0) -> np.float64:
        return dot(self.weight, x) * np.float64(scale)

    @jit(strict=True)
    def scaled(self, x: Array) -> Array:
        return self.weight * x

    @classmethod
    @jit
    def ones(cls, x: Array) -> Array:
        return np.ones_like(x)

    @staticmethod
    @jit
    def norm(x: Array) -> np.float64:
        return np.float64(np.sqrt(np.sum(x**2)))


def calls(w: Array, model: Model) -> None:
    held: Jitted[[Array, Array], np.float64] = dot
    assert_type(held(w, w), np.float64)
    assert_type(dot(w, w), np.float64)
    assert_type(dot(w, x=w), np.float64)
    assert_type(raised(w), Array)
    assert_type(raised(w, power=3), Array)
    assert_type(model.loss(w), np.float64)
    assert_type(model.loss(w, scale=2.0), np.float64)
    assert_type(Model.loss(model, w), np.float64)
    assert_type(model.scaled(w), Array)
    assert_type(Model.ones(w), Array)
    assert_type(model.ones(x=w), Array)
    assert_type(Model.norm(w), np.float64)
    assert_type(model.norm(w), np.float64)


def methods(w: Array, model: Model) -> None:
    assert_type(dot.explain(w, w), str)
    assert_type(Model.loss.explain(model, w), str)
    assert_type(dot.llvm(w, w), str)
    assert_type(dot.asm(w, w), str)
    assert_type(dot.cache_info().traces, int)
    assert_type(dot.__name__, str)
    text: str = str(dot.ir(w, w, pullback=True))
    print(text, tracker.trace(dot, w, w))
    dot.clear_cache()


def methods_of_objects(w: Array, model: Model) -> None:
    assert_type(model.loss.explain(model, w, scale=2.0), str)
    assert_type(model.loss.llvm(model, w), str)
    assert_type(model.loss.asm(model, w), str)
    assert_type(model.loss.profile(model, w).seconds, float)
    assert_type(model.loss.cache_info().traces, int)
    assert_type(model.loss.__name__, str)
    assert_type(model.loss.__self__, Model)
    assert_type(model.loss.__func__(model, w), np.float64)
    assert_type(model.loss.__wrapped__(model, w, scale=2.0), np.float64)
    assert_type(model.scaled.explain(model, w), str)
    assert_type(Model.ones.explain(Model, w), str)
    assert_type(Model.ones.cache_info().traces, int)
    assert_type(model.norm.explain(w), str)
    print(model.loss.ir(model, w), model.loss.ir(model, w, pullback=True))
    loss: Callable[[Array], np.float64] = model.loss
    assert_type(loss(w), np.float64)
    model.loss.clear_cache()


def gradients(w: Array, model: Model) -> None:
    assert_type(tracker.gradient(dot, w, w), tuple[Array, Array])
    assert_type(tracker.gradient(Model.norm, w), tuple[Array])
    assert_type(tracker.gradient(Model.norm, [1.0, 2.0]), tuple[Array])
    assert_type(tracker.gradient(square, 2.0), tuple[float])
    assert_type(tracker.gradient(model.loss, w), tuple[Array])
    assert_type(tracker.gradient(model.loss, w, scale=2.0), tuple[Any, ...])
    assert_type(tracker.gradient(Model.loss, model, w), tuple[Model, Array])
    assert_type(tracker.withgradient(dot, w, w).val, np.float64)
    assert_type(tracker.withgradient(dot, w, w).grad, tuple[Array, Array])
    assert_type(tracker.value_and_grad(dot)(w, w), tuple[np.float64, Array])
    assert_type(tracker.value_and_grad(model.loss)(w, scale=2.0), tuple[np.float64, Array])
    assert_type(tracker.value_and_grad(dot, argnums=(0, 1))(w, w)[0], np.float64)
    compiled = jit(tracker.value_and_grad(dot))
    assert_type(compiled(w, w), tuple[np.float64, Array])
    assert_type(compiled.explain(w, w), str)


def derivatives(w: Array, model: Model) -> None:
    assert_type(tracker.jacobian(raised, w), tuple[NDArray[Any]])
    assert_type(tracker.jacobian(model.scaled, w), tuple[NDArray[Any]])
    assert_type(tracker.jacobian(dot, w, w), tuple[NDArray[Any], NDArray[Any]])
    assert_type(tracker.withjacobian(raised, w).val, Array)
    assert_type(tracker.hessian(Model.norm, w), NDArray[Any])
    assert_type(tracker.jvp(model.scaled, (w,), (w,)), tuple[Array, Array])
    y, back = tracker.pullback(dot, w, w)
    assert_type(y, np.float64)
    assert_type(back(1.0), tuple[Array, Array])
    assert_type(tracker.hvp(Model.norm, w, w), Array)
    assert_type(tracker.diaghessian(dot, w, w), tuple[Array, Array])
    z, push = tracker.pushforward(model.scaled, w)
    assert_type(z, Array)
    assert_type(push(w), Array)
    assert_type(tracker.vmap(raised)(w), Array)
    assert_type(tracker.vmap(dot)(w, w), NDArray[Any])
    assert_type(tracker.vmap(model.loss)(w), NDArray[Any])
    assert_type(tracker.checkpoint(model.scaled, w), Array)


def of_annotated(norm: Jitted[[Array], np.float64], w: Array) -> None:
    assert_type(tracker.gradient(norm, w), tuple[Array])
    assert_type(tracker.value_and_grad(norm)(w), tuple[np.float64, Array])
    assert_type(norm.explain(w), str)
    assert_type(tracker.gradient(applied, jit(raised), w), tuple[Any, ...])


def applied(f: Jitted[[Array], Array], x: Array) -> np.float64:
    return np.float64(np.sum(twice(f, x)))


def twice(f: Jitted[[Array], Array], x: Array) -> Array:
    return f(f(x))
