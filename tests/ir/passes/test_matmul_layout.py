"""Transposes that only a loop's products read are made in the loop, without a copy."""

import numpy as np
import pytest
from compare import agree, compiled, compiled_ir

import tracker
from tracker.ir.verify import verify

STEPS = 40


def recurrent(w, x):
    h = np.zeros(w.shape[0])
    for row in x:
        h = np.tanh(w @ h + row)
    return np.sum(h * h)


def backwards(w, x):
    return tracker.withgradient(recurrent, w, x)


def given(n):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, n)) / np.sqrt(n), rng.normal(size=(STEPS, n))


def inside(function, name):
    """How many equations of an op each body of its loops has."""
    return [sum(e.op.name == name for e in body.eqns) for body in function.functions.values()]


def test_a_large_matrix_is_transposed_in_the_loop():
    function = compiled_ir(compiled(backwards, *given(100)))
    verify(function)
    assert sorted(inside(function, "transpose")) == [0, 1]


def test_a_small_matrix_is_laid_out_once():
    function = compiled_ir(compiled(backwards, *given(60)))
    assert inside(function, "transpose") == [0, 0]
    assert function.has_op("transpose")


def test_a_transpose_with_other_readers_is_laid_out_once():
    def f(w, x):
        u = w.T
        return tracker.scan(lambda h, row: (np.tanh(u @ h + row), np.max(u * row)), x[0], x)

    function = compiled_ir(compiled(f, *given(100)))
    assert inside(function, "transpose") == [0]


@pytest.mark.parametrize("n", [7, 100, 131])
def test_several_views_of_a_matrix(n):
    def f(w, x):
        h, g = np.zeros(n), np.ones(n)
        for row in x:
            h, g = np.tanh(w @ h + g), np.tanh(w.T @ g + row)
        return np.sum(h * g)

    compiled(lambda w, x: tracker.withgradient(f, w, x), *given(n))


def test_operands_of_products_in_two_orders():
    def f(lower, x):
        y = np.exp(x)
        return np.sum(np.sin(np.einsum("ijk,mik->mij", lower, y)))

    rng = np.random.default_rng(0)
    lower, x = rng.normal(size=(4, 5, 5)), rng.normal(size=(90, 4, 5))
    agree(f, lower, x)
