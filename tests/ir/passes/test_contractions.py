"""Sums of products that are matrix products; sums of what is none."""

import numpy as np
from compare import compiled, compiled_ir

import tracker

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((30, 20)), RNG.standard_normal((20, 40))


def test_a_sum_of_products_is_a_matrix_product():
    fast = compiled(lambda a, b: np.sum(a[:, :, None] * b, axis=1), A, B, rtol=1e-12)
    assert compiled_ir(fast).has_op("matmul")


def test_a_sum_of_numbers_alone():
    """What the terms of a loop add to a cotangent."""

    def f(x):
        y, total = x[0], x[1] * 1.0
        for c in map(float, range(300)):
            total = total + c * y
        return total + np.sin(y) * x[2]

    fast = compiled(lambda x: tracker.gradient(f, x)[0], np.arange(1.0, 7.0), rtol=1e-12)
    assert compiled_ir(fast).has_op("sum") and compiled_ir(fast).has_op("table")
