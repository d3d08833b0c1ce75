"""For tests of re-rolling: functions after all passes, and the loops in them."""

import numpy as np

import tracker
from tracker.jit.pipeline import passes


def optimised(f, *args):
    """The IR of a function after all passes."""
    return passes.optimise(tracker.trace(f, *args))


def loops(function):
    """(steps, carries, results that are stacked, reverse) of each loop."""
    return [
        (e.params["length"], e.params["carries"], len(e.out.type.parts) - e.params["carries"],
         e.params["reverse"])
        for e in function.eqns
        if e.op.name == "loop"
    ]  # fmt: skip


def agree(f, *args, rtol=1e-11):
    """The same values and gradients, compiled and eagerly."""
    fast = tracker.jit(lambda *a: tracker.withgradient(f, *a))
    for given_ in (args, [np.multiply(a, 0.75) for a in args]):
        (value, grads), (expected, wanted) = fast(*given_), tracker.withgradient(f, *given_)
        for got, want in zip([value, *grads], [expected, *wanted], strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
            assert np.result_type(got) == np.result_type(want)


def strided(x):
    total = 0.0
    for k in range(38, 2, -2):
        total = total + (x[k] - 2 * x[k - 1] + x[k + 1]) ** 2 * np.cos(total)
    return total
