"""Arrays and contexts for the tests of lazy values.

Within `everything` all that can be lazy is, however small, and abstract values lie in memory full
of NaNs, so that any read of one shows.
"""

from contextlib import contextmanager

import numpy as np
import pytest
from counting import peak_bytes

from tracker.jit.dispatch import first_call
from tracker.tape.tracing import lazy

N = 1 << 18
ARRAY = 8 * N
LATER = 1 << 60  # bytes: NumPy computes it all


@contextmanager
def everything(soon=0):
    """`soon`: how much NumPy computes on the first call, not machine code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_call, "BYTES_WHILE_COMPILING", soon)
        patch.setattr(lazy, "_MIN_REUSED_BYTES", 0)
        patch.setattr(lazy, "_reserve_addresses", lambda size: bytearray(b"\xff" * size))
        patch.setattr(lazy, "_addresses", lazy._reserve_addresses(1 << 16))
        patch.setattr(lazy, "LARGE", 0)
        yield


def arrays(count, n=N):
    rng = np.random.default_rng(count)
    return [rng.normal(size=n) for _ in range(count)]


def peak(f, *args):
    return peak_bytes(lambda: f(*args)) / ARRAY


def tanh_exp(x, w, b):
    return np.sum(np.tanh(x * w + b) * np.exp(-(x**2)))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_by_hand(x):
    x0, x1 = x[:-1], x[1:]
    a, b = x1 - x0 * x0, 1.0 - x0
    g = np.zeros_like(x)
    g[:-1] = -400.0 * x0 * a - 2.0 * b
    g[1:] += 200.0 * a
    return 100.0 * np.dot(a, a) + np.dot(b, b), (g,)
