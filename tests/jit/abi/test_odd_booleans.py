"""Booleans whose bytes are neither 0 nor 1 (`int8s.view(bool)`) are true, as they are to NumPy."""

import numpy as np
from equality import assert_same
from pairwise_parameters import crossed

import tracker as tr
from tracker import gradient, jit

_BYTES = np.array([0, 1, 2, 3, 254, 255, 128], np.uint8)
PROGRAMS = {
    "summed": lambda m, x: np.sum(m),
    "mean of an axis": lambda m, x: np.mean(m, axis=0),
    "as numbers": lambda m, x: m.astype(float),
    "added": lambda m, x: m + x,
    "product": lambda m, x: np.tensordot(m.astype(float), x, m.ndim),
    "times itself": lambda m, x: m * m,
    "chosen by": lambda m, x: np.where(m, x, 0.0),
    "taken by": lambda m, x: x[m],
    "where of a sum": lambda m, x: np.sum(x, where=m),
    "any": lambda m, x: np.any(m, axis=-1),
    "all": lambda m, x: np.all(m, axis=0),
    "not": lambda m, x: ~m,
    "exclusive or": lambda m, x: m ^ (x > 2),
    "equal": lambda m, x: m == (x > 0),
    "greater": lambda m, x: m > (x > 3),
    "counted": lambda m, x: np.count_nonzero(m),
    "cumulative": lambda m, x: np.cumsum(m),
    "sorted": lambda m, x: np.sort(m, axis=-1),
    "joined": lambda m, x: np.concatenate([m, ~m]).astype(float),
    "element": lambda m, x: x[0] * m[-1],
    "element by index": lambda m, x: x * m.reshape(-1)[np.argmin(x)],
    "in a loop": lambda m, x: tr.scan(
        lambda c, k: (c + m[..., 0] * k, c), x[..., 0] * 0, x.ravel()
    ),
}
SHAPES = {"vector": (7,), "long": (3000,), "matrix": (30, 7), "small": (2, 7)}


@crossed(name=PROGRAMS, size=SHAPES, captured=[False, True])
def test_every_byte_but_zero_is_true(name, size, captured):
    f, shape = PROGRAMS[name], SHAPES[size]
    m = np.resize(_BYTES, shape).view(bool)
    x = np.resize(np.arange(7.0), shape) + 1
    compiled, want = jit((lambda x: f(m, x)) if captured else f), f(m != 0, x)
    for _ in range(3):
        got = compiled(x) if captured else compiled(m, x)
        for one, other in zip(*(r if type(r) is tuple else (r,) for r in (got, want)), strict=True):
            assert_same(np.add(one, 0), np.add(other, 0), name, 1e-12)


def test_gradients_by_masks_of_any_bytes():
    def loss(x, m):
        return np.sum(np.where(m, x * x, 0.0)) + np.sum(x[m]) + np.sum(m * x)

    x, m = np.linspace(-1, 1, 70), np.resize(_BYTES, 70).view(bool)
    compiled = jit(lambda x, m: gradient(loss, x, m)[0])
    for _ in range(3):
        assert_same(compiled(x, m), np.where(m != 0, 2 * x + 2, 0.0), "gradient", 1e-12)
