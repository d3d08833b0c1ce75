"""Rows of the elementwise ops of one operand, and their branch cuts."""

import numpy as np
import pytest
from op_rows import row, sample, x, z

from tracker import jvp

REAL = [(-2.0, 2.0)]
POSITIVE = [(0.3, 3.0)]
INSIDE = [(-0.9, 0.9)]
CELL = [(0.1, 0.4)]  # between two steps of floor, ceil, rint
HUGE = [-1e300, -800.0, -40.0, -1e-300, 0.0, 1e-300, 1e-8, 40.0, 800.0, 1e300]
HUGE_POSITIVE = [e for e in HUGE if e > 0]

ROWS = [
    row("negative", domain=REAL, complex=True, extremes=HUGE),
    row("positive", domain=REAL, complex=True, extremes=HUGE),
    row("absolute", sample(x(3)), domain=[(0.2, 2.0)], complex=True, extremes=HUGE),
    row("fabs", sample(x(3)), domain=[(-2.0, -0.2)], extremes=HUGE),
    row("sign", domain=POSITIVE, extremes=HUGE),
    row("exp", domain=REAL, complex=True, extremes=[-1e300, -800.0, -1e-300, 0.0, 40.0]),
    row("exp2", domain=REAL, extremes=[-1e300, -1200.0, 0.0, 1000.0]),
    row("expm1", domain=REAL, complex=True, extremes=[-1e300, -800.0, -1e-300, 0.0, 40.0]),
    row("log", domain=POSITIVE, complex=True, extremes=HUGE_POSITIVE),
    row("log2", domain=POSITIVE, extremes=HUGE_POSITIVE),
    row("log10", domain=POSITIVE, complex=True, extremes=HUGE_POSITIVE),
    row("log1p", domain=[(-0.7, 2.0)], complex=True, extremes=HUGE_POSITIVE),
    row("sqrt", domain=POSITIVE, complex=True, extremes=HUGE_POSITIVE),
    row("cbrt", domain=POSITIVE, extremes=HUGE_POSITIVE),
    row("square", domain=REAL, complex=True, extremes=HUGE),
    row("reciprocal", domain=POSITIVE, complex=True, extremes=[1e-100, 1e100, -1e150]),
    row("sin", domain=REAL, complex=True, extremes=[-40.0, -1e-300, 0.0, 40.0]),
    row("cos", domain=REAL, complex=True, extremes=[-40.0, -1e-300, 0.0, 40.0]),
    row("tan", domain=[(-1.2, 1.2)], complex=True, extremes=[-1e-300, 0.0, 1e-8]),
    row("arctan_slope", sample(x(2, 3)), sample(z(3)), sample(0.3), extremes=[1e100]),
    row("one_less_square", sample(x(2, 3)), sample(z(3)), sample(0.3), extremes=[1e-300]),
    row("arcsin", domain=INSIDE, complex=True, extremes=[-1 + 1e-15, 0.0, 1e-300]),
    row("arccos", domain=INSIDE, complex=True, extremes=[-1 + 1e-15, 0.0, 1e-300]),
    row("arctan", domain=REAL, complex=True, extremes=HUGE),
    row("sinh", domain=REAL, complex=True, extremes=[-700.0, -1e-300, 0.0, 40.0]),
    row("cosh", domain=REAL, complex=True, extremes=[-700.0, -1e-300, 0.0, 40.0]),
    row("sech_squared", *(sample(np.tanh(v), v) for v in (x(2, 3), z(3), np.float64(0.3), x(0)))),
    row("tanh", domain=REAL, complex=True, extremes=HUGE),
    row("arcsinh", domain=REAL, complex=True, extremes=HUGE),
    row("arccosh", domain=[(1.2, 4.0)], complex=True, extremes=[1 + 1e-15, 1e8, 1e300]),
    row("arctanh", domain=INSIDE, complex=True, extremes=[-1 + 1e-15, 0.0, 1e-300]),
    row("deg2rad", domain=REAL, extremes=HUGE), row("rad2deg", domain=REAL, extremes=[0.0, 1e300]),
    row("radians", domain=REAL, extremes=HUGE), row("degrees", domain=REAL, extremes=[0.0, 1e300]),
    row("floor", domain=CELL, extremes=HUGE), row("ceil", domain=CELL, extremes=HUGE),
    row("trunc", domain=CELL, extremes=HUGE), row("rint", domain=CELL, extremes=HUGE),
    row("isnan", sample(np.array([1.0, np.nan, np.inf])), domain=REAL),
    row("isinf", sample(np.array([1.0, np.nan, np.inf])), domain=REAL),
    row("isfinite", sample(np.array([1.0, np.nan, np.inf])), domain=REAL),
    row("signbit", domain=REAL),
    row("logical_not", sample(np.array([True, False])), sample(np.arange(3)), domain=REAL),
    row("invert", sample(np.array([True, False])), sample(np.arange(3)), sample(5)),
    row("real", sample(x(3)), sample(z(3)), sample(z()), sample(z(0, 2)), sample(1.0 + 2j)),
    row("imag", sample(x(3)), sample(z(3)), sample(z()), sample(z(0, 2)), sample(1.0 + 2j)),
    row(
        "complex_of", *(sample(x(*n), x(*n, seed=1)) for n in [(3,), (), (0, 2), (2, 3)]),
        sample(x(3).astype(np.float32), x(3, seed=1).astype(np.float32))),
    row("conjugate", sample(x(3)), sample(z(3)), sample(z()), sample(z(0, 2))),
]  # fmt: skip


@pytest.mark.parametrize("z", [2.5 + 0j, complex(2.5, -0.0), -2.5 + 0j, complex(-2.5, -0.0)])
@pytest.mark.parametrize("f", [np.arccos, np.arcsin, np.arctanh])
def test_the_sign_of_zero_selects_the_side_of_a_branch_cut(f, z):
    """Central differences along the branch cut stay on one side of it."""
    h = 1e-5
    ahead, behind = (complex(z.real + step, z.imag) for step in (h, -h))
    want = (f(ahead) - f(behind)) / (2 * h)
    _, slope = jvp(f, (np.complex128(z),), (np.complex128(1),))
    assert slope == pytest.approx(want, rel=1e-8)
