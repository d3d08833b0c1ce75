"""Time to trace and compile value and gradient: of a loop of dependent scalar operations, and of an
array function at its first shapes and at others. The first call returns what the trace computed,
while the compiler works; the second waits for it: both times count from the first call.

Run: python benchmarks/compile_time.py      (the first should grow linearly; other shapes need no
compiling)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import tracker
from tracker.jit.llvm import engine


def loop(n: int) -> Any:
    def f(x: Any) -> Any:
        y = x
        for i in range(n // 4):
            y = np.sin(y) * 1.01 + x
            y = y - 0.1 * i
        return y

    return f


def two_calls(f: Any, *args: Any) -> tuple[float, float]:
    """Seconds until the first call has its result, and until the second has."""
    start = time.perf_counter()
    f(*args)
    first = time.perf_counter() - start
    f(*args)
    return first, time.perf_counter() - start


def chain(n: int) -> tuple[float, float]:
    return two_calls(tracker.value_and_grad(tracker.jit(loop(n))), 0.3)


def rows() -> dict[int, tuple[float, float]]:
    chain(8)  # LLVM's own first start
    return {n: min(chain(n) for _ in range(3)) for n in (100, 1000, 10_000)}


def chain_of_vectors(x: Any, w: Any) -> Any:
    return np.sum(np.tanh(x * w) * np.exp(-(x**2)))


def logistic(w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    return np.mean(np.logaddexp(0.0, z) - y * z)


def network(p: Any, x: Any, y: Any) -> Any:
    z = np.tanh(x @ p["w"] + p["b"]) @ p["v"]
    z = z - z.max(axis=1, keepdims=True)
    return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))), axis=1))


def pairs(x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return -np.sum(np.triu(1.0 / np.sqrt(np.sum(d**2, axis=-1) + 0.01), 1))


def of_vectors(*shape: int) -> tuple[Any, ...]:
    return np.ones(shape), np.linspace(0.0, 2.0, shape[-1])


def of_logistic(rows: int) -> tuple[Any, ...]:
    return np.ones(50), np.linspace(-1.0, 1.0, rows * 50).reshape(rows, 50), np.ones(rows)


def of_network(rows: int) -> tuple[Any, ...]:
    shapes = {"w": (100, 128), "b": (128,), "v": (128, 10)}
    params = {k: np.linspace(-0.1, 0.1, int(np.prod(s))).reshape(s) for k, s in shapes.items()}
    return params, np.ones((rows, 100)), np.eye(10)[np.arange(rows) % 10]


def of_pairs(points: int) -> tuple[Any, ...]:
    return (np.linspace(-1.0, 1.0, points * 3).reshape(points, 3),)


# A function, its arguments at a shape, and shapes: the first of them is compiled.
SHAPES: list[tuple[Any, Any, list[tuple[int, ...]]]] = [
    (chain_of_vectors, of_vectors, [(50,), (64,), (101,)]),
    (chain_of_vectors, of_vectors, [(1000,), (1500,), (2500,), (10_000,)]),
    (chain_of_vectors, of_vectors, [(200, 300), (210, 301), (150, 640)]),
    (logistic, of_logistic, [(200,), (1000,), (1500,), (10_000,)]),
    (network, of_network, [(150,), (200,), (256,), (400,)]),
    (pairs, of_pairs, [(50,), (64,), (100,)]),
]


def shapes() -> Iterator[tuple[str, float, float, int]]:
    """The same at each shape, and how many texts LLVM was given for it."""
    texts = []
    original = engine.compile_module

    def noted(text: str, **options: Any) -> Any:
        texts.append(text)
        return original(text, **options)

    engine.compile_module = noted
    for f, arguments, group in SHAPES:
        fast = tracker.jit(
            lambda *args, f=f: tracker.withgradient(lambda x: f(x, *args[1:]), args[0])
        )
        for shape in group:
            texts.clear()
            times = two_calls(fast, *arguments(*shape))
            yield f"{f.__name__} {'x'.join(map(str, shape))}", *times, len(texts)
    engine.compile_module = original


if __name__ == "__main__":
    for n, (first, ready) in rows().items():
        print(f"{n:6} operations: result {1e3 * first:8.1f} ms, machine code {1e3 * ready:8.1f} ms")
    for what, first, ready, count in shapes():
        times = f"result {1e3 * first:6.1f} ms, machine code {1e3 * ready:6.1f} ms"
        print(f"{what:>24}: {times}, {count} compiled")
