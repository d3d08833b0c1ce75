"""For `peak_memory.py`: programs that users write, beside their gradients in NumPy by hand.

Invariant: what is by hand frees and overwrites what a careful author would, and no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from peak_cases import Case, rows, vectors

import tracker


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Layers -------------------------------------------------------------------------------------------


def _tokens(n: int) -> tuple[Any, ...]:
    side = round(n**0.5)
    return tuple(_rng().normal(size=(3, side, 64)))


def _attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.T / 8
    e = np.exp(s - np.max(s, axis=1, keepdims=True))
    return np.sum((e / np.sum(e, axis=1, keepdims=True) @ v) ** 2)


def _attention_by_hand(q: Any, k: Any, v: Any) -> Any:
    p = q @ k.T / 8
    p -= np.max(p, axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= np.sum(p, axis=1, keepdims=True)
    y = p @ v
    g = (2 * y) @ v.T
    g -= np.sum(g * p, axis=1, keepdims=True)
    g *= p
    return np.sum(y * y), g @ k / 8


def _layer_norm(x: Any, w: Any) -> Any:
    c = x - np.mean(x, axis=1, keepdims=True)
    return np.sum(c / np.sqrt(np.mean(c * c, axis=1, keepdims=True) + 1e-5) * w)


def _layer_norm_by_hand(x: Any, w: Any) -> Any:
    y = x - np.mean(x, axis=1, keepdims=True)
    r = 1 / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 1e-5)
    y *= r
    total, slope = np.sum(y * w), np.mean(y * w, axis=1, keepdims=True)
    y *= -slope
    y += w
    y -= np.mean(w, axis=1, keepdims=True)
    y *= r
    return total, y


def _classes(n: int) -> tuple[Any, ...]:
    rng = _rng()
    return rng.normal(size=(n // 16, 16)), rng.integers(0, 16, n // 16)


def _cross_entropy(z: Any, t: Any) -> Any:
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(len(t)), t])


def _cross_entropy_by_hand(z: Any, t: Any) -> Any:
    z = z - np.max(z, axis=1, keepdims=True)
    at = np.arange(len(t)), t
    chosen = z[at]
    p = np.exp(z, out=z)
    s = np.sum(p, axis=1)
    p /= s[:, None]
    p[at] -= 1
    p /= len(t)
    return np.mean(np.log(s) - chosen), p


def _weighted_classes(n: int) -> tuple[Any, ...]:
    rng, rows = _rng(), n // 16
    w, x, t = rng.normal(size=(8, 16)), rng.normal(size=(rows, 8)), rng.integers(0, 16, rows)
    return w, x, t, rng.uniform(size=rows)


def _regression(w: Any, x: Any, t: Any, s: Any) -> Any:
    z = x @ w
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.sum(s * logp[np.arange(len(t)), t]) / np.sum(s)


def _regression_by_hand(w: Any, x: Any, t: Any, s: Any) -> Any:
    z = x @ w
    z -= np.max(z, axis=1, keepdims=True)
    at = np.arange(len(t)), t
    chosen = z[at]
    p = np.exp(z, out=z)
    total = np.sum(p, axis=1)
    p /= total[:, None]
    p[at] -= 1
    p *= (s / np.sum(s))[:, None]
    return np.sum(s * (np.log(total) - chosen)) / np.sum(s), x.T @ p


def _picture(n: int) -> tuple[Any, ...]:
    side = round(n**0.5) // 2 * 2
    return _rng().normal(size=(side + 2, side + 2)), _rng().normal(size=(3, 3))


def _pooled(x: Any, w: Any) -> Any:
    m, n = x.shape[0] - 2, x.shape[1] - 2
    y: Any = sum(w[i, j] * x[i : m + i, j : n + j] for i in range(3) for j in range(3))
    y = np.maximum(y, 0)
    return np.sum(np.max(np.reshape(y, (m // 2, 2, n // 2, 2)), axis=(1, 3)) ** 2)


def _pooled_by_hand(x: Any, w: Any) -> Any:
    m, n = x.shape[0] - 2, x.shape[1] - 2
    y = np.zeros((m, n))
    for i in range(3):
        for j in range(3):
            y += w[i, j] * x[i : m + i, j : n + j]
    np.maximum(y, 0, out=y)
    blocks = y.reshape(m // 2, 2, n // 2, 2)
    top = np.max(blocks, axis=(1, 3), keepdims=True)
    r = np.where(blocks == top, 2 * top, 0.0).reshape(m, n)
    g = np.zeros_like(x)
    for i in range(3):
        for j in range(3):
            g[i : m + i, j : n + j] += w[i, j] * r
    return np.sum(top * top), g


def _sequence(n: int) -> tuple[Any, ...]:
    steps, rng = 64, _rng()
    units = max(n // steps // 64, 1)
    return rng.normal(size=(steps, 64, 4 * units)), rng.normal(size=(3, 4 * units))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(x: Any, w: Any) -> Any:
    units = x.shape[2] // 4
    h = c = np.zeros((x.shape[1], units))
    for t in range(x.shape[0]):
        z = x[t] + np.concatenate([h, h, h, h], axis=1) * w[0]
        i, f, o = (_sigmoid(z[:, k * units : (k + 1) * units]) for k in range(3))
        c = f * c + i * np.tanh(z[:, 3 * units :])
        h = o * np.tanh(c)
    return np.sum(h)


def _lstm_by_hand(x: Any, w: Any) -> Any:
    units = x.shape[2] // 4
    h = c = np.zeros((x.shape[1], units))
    gates, cells = np.empty_like(x), np.empty((len(x), *c.shape))
    parts = [slice(k * units, (k + 1) * units) for k in range(4)]
    for t in range(len(x)):
        z = gates[t]
        z[:] = x[t] + np.tile(h, 4) * w[0]
        z[:, : 3 * units] = _sigmoid(z[:, : 3 * units])
        np.tanh(z[:, parts[3]], out=z[:, parts[3]])
        i, f, o, a = (z[:, part] for part in parts)
        c = cells[t] = f * c + i * a
        h = o * np.tanh(c)
    total, gh, gc = np.sum(h), np.ones_like(h), np.zeros_like(h)
    for t in reversed(range(len(x))):
        i, f, o, a = (gates[t][:, part].copy() for part in parts)
        y, before = np.tanh(cells[t]), cells[t - 1] if t else np.zeros_like(h)
        gc = gc + gh * o * (1 - y * y)
        z = gates[t]  # becomes the gradient
        z[:, parts[0]] = gc * a * i * (1 - i)
        z[:, parts[1]] = gc * before * f * (1 - f)
        z[:, parts[2]] = gh * y * o * (1 - o)
        z[:, parts[3]] = gc * i * (1 - a * a)
        gh = sum((z * w[0])[:, part] for part in parts)
        gc = gc * f
    return total, gates


# Physics ------------------------------------------------------------------------------------------


def _bodies(n: int) -> tuple[Any, ...]:
    return tuple(_rng().normal(size=(2, round(n**0.5), 3)))


def _energy(x: Any, v: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    r = np.sqrt(np.sum(d * d, axis=-1) + 0.1)
    return np.sum(v * v) - np.sum(1 / r)


def _energy_by_hand(x: Any, v: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    r = 1 / np.sqrt(np.sum(d * d, axis=-1) + 0.1)
    return np.sum(v * v) - np.sum(r), 2 * np.sum(r[:, :, None] ** 3 * d, axis=1)


def _springs(n: int) -> tuple[Any, ...]:
    return _rng().normal(size=n // 64), np.ones(n // 64)


def _orbit(x: Any, k: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        x, v = state
        v = v - 0.01 * k * np.sin(x)
        return (x + 0.01 * v, v), None

    (x, v), _ = tracker.scan(step, (x, np.zeros_like(k)), np.arange(64.0))
    return np.sum(x * x + v * v)


def _orbit_by_hand(x: Any, k: Any) -> Any:
    kept, v = np.empty((64, len(x))), np.zeros_like(k)
    x = x.copy()
    for t in range(64):
        kept[t] = x
        v -= 0.01 * k * np.sin(x)
        x += 0.01 * v
    gx, gv = 2 * x, 2 * v
    for t in reversed(range(64)):
        gv += 0.01 * gx
        gx -= 0.01 * gv * k * np.cos(kept[t])
    return np.sum(x * x + v * v), gx


def _filtered(x: Any, w: Any) -> Any:
    return np.sum(np.fft.irfft(np.fft.rfft(x) * w[: len(x) // 2 + 1], len(x)) ** 2)


def _filtered_by_hand(x: Any, w: Any) -> Any:
    w = w[: len(x) // 2 + 1]
    s = np.fft.rfft(x)
    s *= w
    y = np.fft.irfft(s, len(x))
    s = np.fft.rfft(2 * y)
    s *= w
    return np.sum(y * y), np.fft.irfft(s, len(x))


# Statistics ---------------------------------------------------------------------------------------


def _inputs(n: int) -> tuple[Any, ...]:
    side = round(n**0.5) // 2
    return _rng().normal(size=(side, 2)), _rng().normal(size=side)


def _process(x: Any, y: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    k = np.exp(-0.5 * np.sum(d * d, axis=-1)) + 0.1 * np.eye(len(x))
    low = np.linalg.cholesky(k)
    a = np.linalg.solve(low, y)
    return 0.5 * np.sum(a * a) + np.sum(np.log(np.diag(low)))


def _process_by_hand(x: Any, y: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    k = np.exp(-0.5 * np.sum(d * d, axis=-1))
    low = np.linalg.cholesky(k + 0.1 * np.eye(len(x)))
    a = np.linalg.solve(low, y)
    value = 0.5 * np.sum(a * a) + np.sum(np.log(np.diag(low)))
    inverse = np.linalg.inv(low)
    b = inverse.T @ a
    g = 0.5 * (inverse.T @ inverse - b[:, None] * b)
    g *= k
    return value, -2 * np.sum(g[:, :, None] * d, axis=1)


def _median_by_hand(x: Any) -> Any:
    half = x.shape[1] // 2
    order = np.argpartition(x, (half - 1, half), axis=1)[:, half - 1 : half + 1]
    y = np.mean(np.take_along_axis(x, order, 1), axis=1)
    g = np.zeros_like(x)
    np.put_along_axis(g, order, y[:, None], 1)
    return np.sum(y * y), g


def _cumprod_by_hand(x: Any) -> Any:
    y = np.cumprod(x, axis=1)
    total, g = np.sum(y * y), 2 * y
    g *= y
    g = np.cumsum(g[:, ::-1], axis=1)[:, ::-1]
    g /= x
    return total, g


def _triple(n: int) -> tuple[Any, ...]:
    side = round(n**0.5)
    return tuple(_rng().normal(size=(3, side, side)) / side)


def _einsum(a: Any, b: Any, c: Any) -> Any:
    return np.sum(np.einsum("ij,jk,kl->il", a, b, c, optimize=True) ** 2)


def _einsum_by_hand(a: Any, b: Any, c: Any) -> Any:
    y = a @ b @ c
    total = np.sum(y * y)
    y *= 2
    return total, y @ c.T @ b.T


def _masked(x: Any, w: Any) -> Any:
    y = x * w
    y[x < 0] = 0.1
    return np.sum(y * y)


def _masked_by_hand(x: Any, w: Any) -> Any:
    y, negative = x * w, x < 0
    y[negative] = 0.1
    total = np.sum(y * y)
    y *= 2
    y *= w
    y[negative] = 0
    return total, y


def _scattered(n: int) -> tuple[Any, ...]:
    rng = _rng()
    return rng.normal(size=n), rng.permutation(n)[: n // 2], rng.normal(size=n // 2)


def _added(x: Any, i: Any, y: Any) -> Any:
    z = x.copy()
    z[i] += y
    return np.sum(z**3)


def _added_by_hand(x: Any, i: Any, y: Any) -> Any:
    z = x.copy()
    z[i] += y
    g = z * z
    z *= g
    g *= 3
    return np.sum(z), g


PROGRAMS = {
    "attention": Case(_attention, _attention_by_hand, _tokens, is_square=True),
    "layer norm": Case(_layer_norm, _layer_norm_by_hand, rows(2)),
    "cross entropy": Case(_cross_entropy, _cross_entropy_by_hand, _classes),
    "softmax regr.": Case(_regression, _regression_by_hand, _weighted_classes, is_square=True),
    "conv, pool": Case(_pooled, _pooled_by_hand, _picture),
    "LSTM": Case(_lstm, _lstm_by_hand, _sequence),
    "n bodies": Case(_energy, _energy_by_hand, _bodies, is_square=True),
    "ODE by scan": Case(_orbit, _orbit_by_hand, _springs, is_square=True),
    "filter by fft": Case(_filtered, _filtered_by_hand, vectors(2)),
    "GP": Case(_process, _process_by_hand, _inputs, is_square=True),
    "median of rows": Case(lambda x: np.sum(np.median(x, axis=1) ** 2), _median_by_hand, rows(1)),
    "cumprod of rows": Case(
        lambda x: np.sum(np.cumprod(x, axis=1) ** 2),
        _cumprod_by_hand,
        lambda n: (1 + rows(1)(n)[0] / 100,),
    ),
    "einsum of three": Case(_einsum, _einsum_by_hand, _triple),
    "masked write": Case(_masked, _masked_by_hand, vectors(2)),
    "x[i] += y": Case(_added, _added_by_hand, _scattered),
}
