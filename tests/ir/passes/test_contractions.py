"""Sums of products that are matrix products; sums of what is none."""

import numpy as np
import pytest
from compare import compiled, compiled_ir

import tracker
from tracker.ir.passes.contractions import contract_products
from tracker.ir.text import parse

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((30, 20)), RNG.standard_normal((20, 40))


def test_a_sum_of_products_is_a_matrix_product():
    fast = compiled(lambda a, b: np.sum(a[:, :, None] * b, axis=1), A, B, rtol=1e-12)
    assert compiled_ir(fast).has_op("matmul")


WINDOWS = RNG.standard_normal((12, 14, 30))
SPARSE = RNG.random((20, 40)) < 0.3


@pytest.mark.parametrize(
    ("sums", "x", "y"),
    [
        (lambda x, y: np.sum(x[:, :, None] * y, axis=1), A, B.astype(np.float32)),
        (lambda x, y: np.sum(x[:, :, None] * y, axis=1), A, SPARSE),
        (lambda x, y: np.sum(x[:, :, None] * y, axis=1), A.astype(np.float32), B),
        (lambda x, y: np.sum(x.T[:, :, None] * y[:, None], axis=0), A, B),
        (lambda x, y: np.sum(x[..., None, :] * y[:, None], axis=-1), WINDOWS, WINDOWS * 2),
        (lambda x, y: np.sum(x[..., None] * y[:, :, None], axis=1), WINDOWS, WINDOWS + 1),
        (lambda x, y: np.sum(x[..., None] * y[:, None, None], axis=0).T, WINDOWS, WINDOWS[..., 0]),
        (lambda x, y: np.sum(x[:, None] * y[None], axis=-1), A, A[:, ::-1]),
    ],
    ids=[
        "f8-f4",
        "f8-bool",
        "f4-f8",
        "both-transposed",
        "stack",
        "stack-transposed",
        "axes",
        "row",
    ],
)
def test_factors_of_any_dtype_and_order_are_multiplied_as_stacks_of_matrices(sums, x, y):
    fast = compiled(sums, x, y, rtol=1e-10)
    assert compiled_ir(fast).has_op("matmul")

    def pulled(x, y):
        return tracker.gradient(lambda x: np.sum(np.sin(sums(x, y))), x)

    compiled(pulled, x, y, rtol=1e-9 if x.dtype == np.float64 else 1e-4)


def test_a_sum_of_numbers_alone_stays():
    function = parse("""
function f(x: f64[]) {
  t: f64[3] = table {values=(1.0, 2.0, 3.0), dtype=f64}
  s: f64[] = sum t {axis=(0,), keepdims=False}
  y: f64[] = multiply s x
  return (y)
}""")
    assert str(contract_products(function)) == str(function)
