"""Branches and bodies of structured control flow that are not taken neither warn nor raise."""

import numpy as np
import pytest

from tracker import cond, fori_loop, gradient, hessian, jit, scan, while_loop

UNTAKEN = {
    "a branch": lambda x: cond(x[0] > 0, np.sqrt, lambda x: x * 2, x),
    "a branch of a branch": lambda x: cond(
        x[0] < 0, lambda x: cond(x[0] > 0, np.log, lambda x: x * 3, x), np.sqrt, x
    ),
    "a branch in a loop": lambda x: scan(
        lambda c, u: (c, cond(u > 0, np.sqrt, lambda u: u * 2, u)), 0.0, x
    )[1],
    "a loop's body": lambda x: while_loop(lambda x: x[0] > 0, np.sqrt, x),
    "a counted loop's body": lambda x: fori_loop(0, np.sum(x > 0), lambda i, x: np.log(x), x),
}


@pytest.mark.parametrize("name", UNTAKEN)
def test_untaken_code_does_not_warn(name):
    def loss(x):
        return np.sum(UNTAKEN[name](x) ** 2)

    value, slope = jit(loss), jit(lambda x: gradient(loss, x)[0])
    curvature = jit(lambda x: hessian(loss, x))
    for x in (np.array([-1.0, -2.0, -3.0]), np.array([-1.5, -2.5, -0.5])):
        assert value(x) == pytest.approx(loss(x))
        assert slope(x) == pytest.approx(gradient(loss, x)[0])
        assert curvature(x) == pytest.approx(hessian(loss, x))


def test_untaken_code_does_not_raise():
    def body(x):
        if x < 0:
            raise ValueError("there is no root")
        return np.sqrt(x)

    def f(x):
        return while_loop(lambda x: x < -100.0, body, x)

    for g in (jit(f), lambda x: gradient(jit(f), x)[0] * x):
        assert [g(x) for x in (-1.0, -2.0, -3.0)] == [-1.0, -2.0, -3.0]
        with pytest.raises(ValueError, match="there is no root"):
            g(-101.0)
