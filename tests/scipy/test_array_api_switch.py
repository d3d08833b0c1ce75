"""SciPy with SCIPY_ARRAY_API=1, in a process of its own: SciPy's functions then ask their arguments
for a namespace, and its ufuncs are wrapped in functions."""

import fresh_python

PROGRAM = """
import numpy as np, scipy.special as sc, scipy.stats, scipy.signal, scipy.ndimage, scipy.linalg
from tracker import data, jit, param, pullback
from tracker.scipy import linalg, ndimage, signal, special, stats
from tracker.testing import gradcheck

assert not isinstance(sc.erf, np.ufunc)  # the switch is on
x, rows = np.array([0.3, 0.6, 0.8]), np.arange(12.0).reshape(3, 4) ** 0.5
table = [
    (lambda m, x: sc.erf(x) * sc.betainc(2.0, x, 0.3), None),
    (lambda m, x: sc.xlogy(x, 2.0) + sc.gammainc(x, np.ones(3)), None),
    (lambda m, x: m.logsumexp(x) + m.softmax(x), (special, sc)),
    (lambda m, x: m.norm.cdf(x) * m.beta.logpdf(x, 2.0, 3.0), (stats, scipy.stats)),
    (lambda m, x: m.zscore(x) + m.skew(x), (stats, scipy.stats)),
    (lambda m, x: m.filtfilt([0.5, 0.5], [1.0], x, padlen=1), (signal, scipy.signal)),
    (lambda m, x: m.gaussian_filter(x * rows[:, :3], 0.8), (ndimage, scipy.ndimage)),
    (lambda m, x: m.toeplitz(x) @ m.expm(m.circulant(x)), (linalg, scipy.linalg)),
]
for program, modules in table:
    ours, theirs = modules or (None, None)
    f = lambda x: program(ours, x)
    want = program(theirs, x)
    np.testing.assert_allclose(pullback(f, x)[0], want, rtol=1e-9)
    if modules:  # SciPy 1.18's own functions make plain arrays of what they are given
        np.testing.assert_allclose(data(f(param(x))), want, rtol=1e-9)
    assert gradcheck(f, x, rtol=1e-5)
    if modules is None or stats in modules:
        np.testing.assert_allclose(jit(f)(x), want, rtol=1e-9)
print("done")
"""


def test_scipy_with_the_array_api_switched_on():
    run = fresh_python.run(PROGRAM, SCIPY_ARRAY_API="1", PYTHONWARNINGS="error")
    assert run.stdout.endswith("done\n")
