"""Losses that workers import, and the sums that they must give."""

import dataclasses
import os
import signal

import numpy as np

import tracker


@dataclasses.dataclass
class Line:
    slope: np.ndarray
    shift: float
    name: str = "line"


def squares(w, shard):
    x, y = shard
    return np.sum((np.tanh(x @ w["slope"]) + w["shift"] - y) ** 2)


@tracker.jit
def jitted_squares(w, shard):
    return squares(w, shard)


def line_squares(line, shard, weight=1.0):
    x, y = shard
    return weight * np.sum((x @ line.slope + line.shift - y) ** 2)


def branching(w, shard):
    x, _ = shard
    return np.sum(w["slope"]) * np.sum(x) if x[0, 0] > 0 else w["shift"] ** 3


def infinite_in_one(w, shard):
    return np.sum(w["slope"]) * (np.inf if shard == 2 else 1.0)


def exhausted_in_one(w, shard):
    return w["shift"] * shard if shard != 2 else next(iter(()))


class Unsendable(Exception):
    def __reduce__(self):
        raise TypeError("not sent")


ERRORS = {"os": OSError("no file"), "unsendable": Unsendable("held")}


def fails_in_one(w, shard, name):
    if shard == 1 and name:
        raise ERRORS[name]
    return np.sum(w**2) * shard


def fatal(w, shard):
    os.kill(os.getpid(), signal.SIGKILL)


X = np.random.default_rng(1).normal(size=(35, 3))
Y = np.random.default_rng(2).normal(size=35)
SHARDS = list(zip(np.array_split(X, 7), np.array_split(Y, 7), strict=True))
W = {"slope": np.array([0.5, -1.0, 0.25]), "shift": 0.125}
V = {"slope": np.array([1.0, 2.0, -1.0]), "shift": -0.5}


def summed(loss, w=W, *args, shards=SHARDS):
    """Value, gradient and product with the Hessian, in this process."""
    whole = lambda p: sum(loss(p, shard, *args) for shard in shards)  # noqa: E731
    return tracker.value_and_grad(whole)(w)


def product(loss, w=W, v=V, shards=SHARDS):
    return tracker.hvp(lambda p: sum(loss(p, shard) for shard in shards), w, v)


def assert_close(found, want):
    found, structure = tracker.tree.flatten(found)
    want, theirs = tracker.tree.flatten(want)
    assert structure == theirs
    for a, b in zip(found, want, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-12)


def check_step(step, loss=squares):
    """A step gives the sums of one process; returns its value and gradient without machine code."""
    assert_close(step(W), summed(loss))
    assert_close(step.hvp(W, V), product(loss))
    return in_python(step)


def in_python(step):
    """Value and gradient without machine code: NumPy ran the first calls, and its last bits are
    others."""
    with tracker.config(jit=False):
        return step(W)


def assert_same(found, want):
    """Bit by bit."""
    for a, b in zip(*map(tracker.tree.leaves, (found, want)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
