"""For `peak_memory.py`: losses, their values and gradients in NumPy by hand, and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """`is_square`: what is large is made of pairs, or of steps, not as long as the argument."""

    loss: Callable[..., Any]
    by_hand: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    is_square: bool = False


def vectors(count: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: tuple(np.random.default_rng(0).normal(size=(count, n)))


def _square(n: int) -> tuple[Any, ...]:
    side = round(n**0.5)
    return (1 + np.random.default_rng(0).normal(size=(side, side)) / side,)


def _taken(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=n), rng.integers(0, n, n)


def _tanh(x: Any, w: Any) -> Any:
    y = np.tanh(x * w)
    return np.sum(y), w * (1 - y * y)


def _exp(x: Any) -> Any:
    y = np.exp(-x * x)
    return np.sum(y), -2 * x * y


def _cumsum(x: Any) -> Any:
    sums = np.cumsum(x)
    return np.sum(sums * sums), np.cumsum(2 * sums[::-1])[::-1]


def _sort(x: Any) -> Any:
    order = np.argsort(x)
    y = x[order]
    g = np.empty_like(x)
    g[order] = 2 * y
    return np.sum(y * y), g


def _take(x: Any, i: Any) -> Any:
    y = x[i]
    return np.sum(y * y), np.bincount(i, 2 * y, len(x))


def _max_of_rows(x: Any) -> Any:
    y = np.max(x, axis=1, keepdims=True)
    hit = x == y
    return np.sum(y), np.where(hit, 1 / np.sum(hit, axis=1, keepdims=True), 0.0)


def _prod_of_rows(x: Any) -> Any:
    y = np.prod(x, axis=1, keepdims=True)
    return np.sum(y), y / x


def _matmul(x: Any) -> Any:
    g = 2 * (y := x @ x)
    return np.sum(y * y), g @ x.T + x.T @ g


def rows(count: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda n: tuple(np.random.default_rng(0).normal(size=(count, *2 * (round(n**0.5),))))


def _spd(n: int) -> tuple[Any, ...]:
    side = round(n**0.5) // 2
    r = np.random.default_rng(0).normal(size=(side, side))
    return r @ r.T / side + 2 * np.eye(side), np.ones(side)


def _layer(n: int) -> tuple[Any, ...]:
    side, rng = round(n**0.5), np.random.default_rng(0)
    w, x = rng.normal(size=(side, side)) / side, rng.normal(size=(side, side))
    return w, x, rng.normal(size=(side, 10)), rng.normal(size=(side, 10))


def _steps(n: int) -> tuple[Any, ...]:
    steps, rng = min(1000, n // 100), np.random.default_rng(0)
    return rng.normal(size=(steps, n // steps)), rng.normal(size=n // steps)


def _points(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n // 8, 8)), rng.normal(size=(4, 8))


def _logsumexp_by_hand(x: Any) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    e = np.exp(x - m)
    s = np.sum(e, axis=1, keepdims=True)
    return np.sum(np.log(s) + m), e / s


def _logsumexp(x: Any) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    return np.sum(m[:, 0] + np.log(np.sum(np.exp(x - m), axis=1)))


def _softmax(x: Any, w: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(e / np.sum(e, axis=1, keepdims=True) * w)


def _softmax_by_hand(x: Any, w: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    p = e / np.sum(e, axis=1, keepdims=True)
    q = p * w
    return np.sum(q), q - p * np.sum(q, axis=1, keepdims=True)


def _mlp(w: Any, x: Any, v: Any, t: Any) -> Any:
    return np.sum((np.tanh(x @ w) @ v - t) ** 2)


def _mlp_by_hand(w: Any, x: Any, v: Any, t: Any) -> Any:
    h = np.tanh(x @ w)
    r = h @ v - t
    return np.sum(r * r), x.T @ ((2 * r) @ v.T * (1 - h * h))


def _chain_by_hand(x: Any, w: Any) -> Any:
    y = x @ w @ w
    return np.sum(y * y), (2 * y) @ w.T @ w.T


def _laplacian(u: Any) -> Any:
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def _laplacian_by_hand(u: Any) -> Any:
    y = _laplacian(u)
    r, g = 2 * y, np.zeros_like(u)
    g[2:, 1:-1] += r
    g[:-2, 1:-1] += r
    g[1:-1, 2:] += r
    g[1:-1, :-2] += r
    g[1:-1, 1:-1] -= 4 * r
    return np.sum(y * y), g


def _determinant(a: Any, b: Any) -> Any:
    return 2 * np.sum(np.log(np.diag(np.linalg.cholesky(a))))


def _determinant_by_hand(a: Any, b: Any) -> Any:
    low = np.linalg.cholesky(a)
    inverse = np.linalg.inv(low)
    g = np.tril(2 * (inverse.T @ inverse))
    g[np.diag_indices(len(g))] /= 2
    return 2 * np.sum(np.log(np.diag(low))), g


def _solve_by_hand(a: Any, b: Any) -> Any:
    x = np.linalg.solve(a, b)
    return np.sum(x * x), -np.linalg.solve(a.T, 2 * x)[:, None] * x


def _where_by_hand(x: Any, w: Any) -> Any:
    positive, e = x > 0, np.exp(x)
    return np.sum(np.where(positive, x * w, e)), np.where(positive, w, e)


def _concatenate_by_hand(x: Any) -> Any:
    y = np.concatenate([x, x[::-1]])
    g = 3 * y**2
    return np.sum(y**3), g[: len(x)] + g[len(x) :][::-1]


def _diff_by_hand(x: Any) -> Any:
    y = np.diff(np.pad(x, 1))
    g = 2 * y
    return np.sum(y * y), g[:-1] - g[1:]


def _fft_by_hand(x: Any) -> Any:
    y = np.fft.fft(x)
    a = np.abs(y) ** 2
    return np.sum(a * a), np.fft.ifft(4 * y * a).real * len(x)


def _recurrent(x: Any, w: Any) -> Any:
    h = np.zeros(x.shape[1])
    for step in range(x.shape[0]):
        h = np.tanh(h * w + x[step])
    return np.sum(h)


def _recurrent_by_hand(x: Any, w: Any) -> Any:
    states, h = np.empty_like(x), np.zeros(x.shape[1])
    for step in range(x.shape[0]):
        h = states[step] = np.tanh(h * w + x[step])
    g, slope = np.empty_like(x), np.ones(x.shape[1])
    for step in reversed(range(x.shape[0])):
        g[step] = slope * (1 - states[step] ** 2)
        slope = g[step] * w
    return np.sum(h), g


def _written(x: Any, w: Any) -> Any:
    y = x.copy()
    y[1:] *= w[:-1]
    y += x
    np.exp(y, out=y)
    return np.sum(y)


def _written_by_hand(x: Any, w: Any) -> Any:
    y = x.copy()
    y[1:] *= w[:-1]
    y += x
    np.exp(y, out=y)
    g = y.copy()
    g[1:] *= w[:-1]
    g += y
    return np.sum(y), g


def _batch_norm(x: Any, w: Any) -> Any:
    c = x - np.mean(x, axis=0)
    return np.sum(c / np.sqrt(np.mean(c * c, axis=0) + 1e-5) * w)


def _batch_norm_by_hand(x: Any, w: Any) -> Any:
    c = x - np.mean(x, axis=0)
    r = 1 / np.sqrt(np.mean(c * c, axis=0) + 1e-5)
    y = c * r
    return np.sum(y * w), (w - np.mean(w, axis=0) - y * np.mean(w * y, axis=0)) * r


def _mask_by_hand(x: Any) -> Any:
    positive = x > 0
    y, g = x[positive], np.zeros_like(x)
    g[positive] = 2 * y
    return np.sum(y * y), g


def _nearest(x: Any, c: Any) -> Any:
    return np.sum(np.min(np.sum((x[:, None] - c) ** 2, axis=-1), axis=1))


def _nearest_by_hand(x: Any, c: Any) -> Any:
    d = np.sum((x[:, None] - c) ** 2, axis=-1)
    return np.sum(np.min(d, axis=1)), 2 * (x - c[np.argmin(d, axis=1)])


def _logistic(x: Any, w: Any, t: Any) -> Any:
    z = x @ w
    return np.sum(np.logaddexp(0, z) - t * z)


def _logistic_by_hand(x: Any, w: Any, t: Any) -> Any:
    z = x @ w
    return np.sum(np.logaddexp(0, z) - t * z), (1 / (1 + np.exp(-z)) - t)[:, None] * w


def _labelled(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n // 16, 16)), rng.normal(size=16), 1.0 * (rng.random(n // 16) < 0.5)


def _image(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=2 * (round(n**0.5),)), rng.normal(size=(3, 3))


def _convolved(x: Any, w: Any) -> Any:
    m, n = x.shape
    parts = [w[i, j] * x[i : m - 2 + i, j : n - 2 + j] for i in range(3) for j in range(3)]
    return np.sum(np.maximum(sum(parts), 0) ** 2)


def _convolved_by_hand(x: Any, w: Any) -> Any:
    m, n = x.shape
    y = np.zeros((m - 2, n - 2))
    for i in range(3):
        for j in range(3):
            y += w[i, j] * x[i : m - 2 + i, j : n - 2 + j]
    np.maximum(y, 0, out=y)
    total, g = np.sum(y * y), np.zeros_like(x)
    for i in range(3):
        for j in range(3):
            g[i : m - 2 + i, j : n - 2 + j] += 2 * w[i, j] * y
    return total, g


def _heat(u: Any) -> Any:
    for _ in range(20):
        u = u.copy()
        u[1:-1, 1:-1] += 0.1 * _laplacian(u)
    return np.sum(u * u)


def _heat_by_hand(u: Any) -> Any:
    u = u.copy()
    for _ in range(20):
        u[1:-1, 1:-1] += 0.1 * _laplacian(u)
    g = 2 * u
    for _ in range(20):
        r = 0.1 * g[1:-1, 1:-1]
        g[2:, 1:-1] += r
        g[:-2, 1:-1] += r
        g[1:-1, 2:] += r
        g[1:-1, :-2] += r
        g[1:-1, 1:-1] -= 4 * r
    return np.sum(u * u), g


CASES = {
    "exp(-x**2)": Case(lambda x: np.sum(np.exp(-x * x)), _exp, vectors(1)),
    "tanh(x * w)": Case(lambda x, w: np.sum(np.tanh(x * w)), _tanh, vectors(2)),
    "cumsum": Case(lambda x: np.sum(np.cumsum(x) ** 2), _cumsum, vectors(1)),
    "sort": Case(lambda x: np.sum(np.sort(x) ** 2), _sort, vectors(1)),
    "x[i]": Case(lambda x, i: np.sum(x[i] ** 2), _take, _taken),
    "max of rows": Case(lambda x: np.sum(np.max(x, axis=1)), _max_of_rows, _square),
    "prod of rows": Case(lambda x: np.sum(np.prod(x, axis=1)), _prod_of_rows, _square),
    "x @ x": Case(lambda x: np.sum((x @ x) ** 2), _matmul, _square),
    "logsumexp": Case(_logsumexp, _logsumexp_by_hand, rows(1)),
    "softmax": Case(_softmax, _softmax_by_hand, rows(2)),
    "batch norm": Case(_batch_norm, _batch_norm_by_hand, rows(2)),
    "layer of an MLP": Case(_mlp, _mlp_by_hand, _layer),
    "x @ w @ w": Case(lambda x, w: np.sum((x @ w @ w) ** 2), _chain_by_hand, rows(2)),
    "Laplacian": Case(lambda u: np.sum(_laplacian(u) ** 2), _laplacian_by_hand, rows(1)),
    "cholesky": Case(_determinant, _determinant_by_hand, _spd),
    "solve": Case(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), _solve_by_hand, _spd),
    "where": Case(
        lambda x, w: np.sum(np.where(x > 0, x * w, np.exp(x))), _where_by_hand, vectors(2)
    ),
    "concatenate": Case(
        lambda x: np.sum(np.concatenate([x, x[::-1]]) ** 3), _concatenate_by_hand, vectors(1)
    ),
    "pad, diff": Case(lambda x: np.sum(np.diff(np.pad(x, 1)) ** 2), _diff_by_hand, vectors(1)),
    "fft": Case(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 4), _fft_by_hand, vectors(1)),
    "1000 steps": Case(_recurrent, _recurrent_by_hand, _steps),
    "in place": Case(_written, _written_by_hand, vectors(2)),
    "x[x > 0]": Case(lambda x: np.sum(x[x > 0] ** 2), _mask_by_hand, vectors(1)),
    "nearest of 4": Case(_nearest, _nearest_by_hand, _points),
    "logistic": Case(_logistic, _logistic_by_hand, _labelled),
    "convolution": Case(_convolved, _convolved_by_hand, _image),
    "heat, 20 steps": Case(_heat, _heat_by_hand, rows(1)),
}
