"""Helpers that compare compiled with plain functions, and look at functions after all passes."""

import numpy as np

import tracker
from tracker.jit.pipeline import pass_order


def optimised(f, *args):
    """The IR of a function after all passes."""
    return pass_order.optimise(tracker.trace(tracker.jit(f), *args))


def loops(function):
    """(steps, carries, results that are stacked, reverse) of each loop."""
    return [
        (e.params["length"], e.params["carries"], len(e.out.type.parts) - e.params["carries"],
         e.params["reverse"])
        for e in function.eqns
        if e.op.name == "loop"
    ]  # fmt: skip


def compiled(f, *args, rtol=1e-12):
    """The jitted function, whose results are those of the plain function."""
    fast = tracker.jit(f)
    for scale in (1.0, 1.0, 0.75):
        given_ = [np.asarray(np.multiply(a, scale)).astype(np.result_type(a))[()] for a in args]
        found, expected = tracker.tree.leaves(fast(*given_)), tracker.tree.leaves(f(*given_))
        for have, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=rtol, atol=rtol)
            assert (np.shape(have), np.result_type(have)) == (np.shape(want), np.result_type(want))
    return fast


def agree(f, *args, rtol=1e-11):
    """The same values and gradients, compiled and eagerly."""
    compiled(lambda *a: tracker.withgradient(f, *a), *args, rtol=rtol)


def compiled_ir(fast):
    """The IR that a jitted function was compiled from."""
    (special,) = next(iter(fast._jitted.groups.values())).specializations
    return special.compiled.function


def strided(x):
    total = 0.0
    for k in range(38, 2, -2):
        total = total + (x[k] - 2 * x[k - 1] + x[k + 1]) ** 2 * np.cos(total)
    return total
