"""Sums of products that are matrix products; sums of what is none."""

import numpy as np
from compare import compiled, compiled_ir

from tracker.ir.passes.contractions import contract_products
from tracker.ir.text import parse

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((30, 20)), RNG.standard_normal((20, 40))


def test_a_sum_of_products_is_a_matrix_product():
    fast = compiled(lambda a, b: np.sum(a[:, :, None] * b, axis=1), A, B, rtol=1e-12)
    assert compiled_ir(fast).has_op("matmul")


def test_a_sum_of_numbers_alone_stays():
    function = parse("""
function f(x: f64[]) {
  t: f64[3] = table {values=(1.0, 2.0, 3.0), dtype=f64}
  s: f64[] = sum t {axis=(0,), keepdims=False}
  y: f64[] = multiply s x
  return (y)
}""")
    assert str(contract_products(function)) == str(function)
