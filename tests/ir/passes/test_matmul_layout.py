"""Operands of products that are read in two orders are laid out once."""

import numpy as np
from compare import agree

from tracker.ir.passes.manager import run
from tracker.ir.passes.matmul_layout import share_transposes
from tracker.ir.text import parse

BOTH = """
function f(a: f64[9,4,5], l: f64[4,5,5]) {
  x: f64[9,4,5] = exp a
  u: f64[4,5,9] = transpose x {axes=(1, 2, 0)}
  v: f64[4,9,5] = transpose x {axes=(1, 0, 2)}
  p: f64[4,5,9] = matmul l u
  q: f64[4,5,5] = matmul p v
  return (p, q)
}
"""


def test_the_second_transpose_is_a_view_of_the_first():
    text = str(run(parse(BOTH), [share_transposes], check=True))
    assert "u: f64[4,5,9] = transpose x {axes=(1, 2, 0)}" in text
    assert "v: f64[4,9,5] = transpose u {axes=(0, 2, 1)}" in text


def test_transposes_of_inputs_stay():
    function = parse(BOTH.replace("transpose x", "transpose a"))
    assert str(run(function, [share_transposes], check=True)) == str(function)


def test_values():
    def f(lower, x):
        y = np.exp(x)
        return np.sum(np.sin(np.einsum("ijk,mik->mij", lower, y)))

    rng = np.random.default_rng(0)
    lower, x = rng.normal(size=(4, 5, 5)), rng.normal(size=(90, 4, 5))
    agree(f, lower, x, rtol=1e-12)
