"""`jit` keeps the signature: of functions, methods, static methods."""

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


@dataclass
class Model:
    weight: Array

    @jit
    def loss(self, x: Array, scale: float = 1.0) -> np.float64:
        return dot(self.weight, x) * np.float64(scale)

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
    assert_type(Model.norm(w), np.float64)


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


def derivatives(w: Array, model: Model) -> None:
    assert_type(tracker.value_and_grad(dot)(w, w), tuple[np.float64, Array])
    assert_type(tracker.value_and_grad(model.loss)(w, scale=2.0), tuple[np.float64, Array])
    assert_type(tracker.vmap(raised)(w), Array)
    compiled = jit(tracker.value_and_grad(dot))
    assert_type(compiled(w, w), tuple[np.float64, Array])
    y, back = tracker.pullback(dot, w, w)
    assert_type(y, np.float64)
    assert_type(back(1.0), tuple[Any, ...])


def twice(f: Jitted[[Array], Array], x: Array) -> Array:
    return f(f(x))
