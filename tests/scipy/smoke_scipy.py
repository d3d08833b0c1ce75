"""Derivatives through SciPy, eager and compiled, with any version of SciPy.

Run: python tests/scipy/smoke_scipy.py
"""

import sys

import numpy as np
import scipy
from scipy import integrate, linalg, optimize, signal, sparse, special, stats

import tracker
from tracker.jit.dispatch import interpreter

interpreter._MAX_CALLS = 0  # second calls run machine code

X = np.array([0.3, 0.7, 1.1])
PROGRAMS = {
    "special": lambda x: np.sum(special.gammaln(x) + special.logsumexp(x)),
    "linalg": lambda x: np.sum(linalg.solve(np.diag(x) + np.ones((3, 3)), x)),
    "sparse": lambda x: np.sum((sparse.diags_array(np.array([2.0, 3.0, 4.0])) @ x) ** 2),
    "stats": lambda x: np.sum(stats.norm.logpdf(x, scale=1.5)),
    "signal": lambda x: np.sum(signal.lfilter([1.0, 0.5], [1.0, -0.2], x) ** 2),
    "integrate": lambda x: integrate.quad(lambda t: np.exp(-x[0] * t), 0.0, 1.0)[0] * x[1],
    "optimize": lambda x: optimize.brentq(lambda t: t**3 - x[0] - x[1], 0.0, 3.0),
}


def main():
    for name, f in PROGRAMS.items():
        tracker.gradcheck(f, X)
        (wanted,) = tracker.gradient(f, X)
        compiled = tracker.value_and_grad(tracker.jit(f))
        for _ in range(3):
            value, slope = compiled(X)
            np.testing.assert_allclose(value, f(X), rtol=1e-10, err_msg=name)
            np.testing.assert_allclose(slope, wanted, rtol=1e-10, err_msg=name)
    print(f"SciPy {scipy.__version__} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
