"""Zeros that scattered sums add to a carry: once, before the loop."""

import numpy as np
from compare import compiled, compiled_ir

import tracker

X = np.linspace(0.5, 1.5, 40)


def _step(i, y):
    y[i] = y[i] + 0.5 * y[(3 * i + 1) % 40] * y[(i * i) % 7]
    return y


def _gradient(x, step=_step):
    return tracker.gradient(lambda x: np.sum(tracker.fori_loop(0, 9, step, x.copy()) ** 2), x)[0]


def _sums_with_zero(function):
    nested = sum(map(_sums_with_zero, function.functions.values()))
    return nested + sum(
        eqn.op.name == "add" and eqn.out.type.shape == X.shape and "0.0" in str(eqn.operands[1])
        for eqn in function.eqns
    )


def test_a_pullback_adds_no_zeros_in_each_step():
    fast = compiled(_gradient, X)
    ir = compiled_ir(fast)
    assert "scattered_added" in str(ir)
    assert sum(map(_sums_with_zero, ir.functions.values())) == 0


def test_inner_loops_add_no_zeros_in_each_step_of_the_outer_one():
    def sweep(i, y):
        y[i] = np.sin(y[i]) * y[(7 * i) % 40]
        return tracker.fori_loop(0, 5, _step, y)

    ir = compiled_ir(compiled(lambda x: _gradient(x, sweep), 0.3 * X))
    assert "scattered_added" in str(ir)
    assert sum(map(_sums_with_zero, ir.functions.values())) == 0


def test_no_zero_changes_its_sign():
    def f(x):
        def step(i, y):
            return y + np.where(np.arange(40) == 3, 0.0, -0.0)

        (pull,) = tracker.gradient(lambda z: np.sum(z[[1, 1, 2]] * -0.0), x)
        return tracker.fori_loop(0, 9, step, -0.0 * x), pull

    fast = tracker.jit(f)
    for _ in range(3):
        for have, want in zip(fast(X), f(X), strict=True):
            np.testing.assert_array_equal(np.signbit(have), np.signbit(want))
