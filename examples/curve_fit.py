"""
SciPy's optimisers with exact derivatives
=========================================

Teaches what a derivative saves: ``scipy.optimize.least_squares`` takes the jacobian of residuals,
``scipy.optimize.minimize`` the value and gradient of a robust loss. Without them SciPy takes finite
differences: the same fit, with many more calls of the model. The data are 442 patients, ten
measurements each, and how their diabetes progressed within a year; they come with scikit-learn.
"""

from dataclasses import dataclass
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares, minimize
from sklearn.datasets import load_diabetes

import tracker

SCALE = 40.0  # residuals beyond this count linearly in the robust loss


def load():
    """Standardised measurements (442, 10), progression (442,), names of the measurements."""
    data = load_diabetes(scaled=False)
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    return x, data.target, data.feature_names


def curve(parameters, x):
    """A saturating curve of one index of all measurements: w (10), shift, low, range."""
    index = x @ parameters[:10] + parameters[10]
    return parameters[11] + parameters[12] / (1.0 + np.exp(-index))


@dataclass
class Fit:
    """One fit: what was found, and what it cost."""

    parameters: np.ndarray
    cost: float
    calls: int
    seconds: float


class Counted:
    """A function that counts its calls; two, which compile, come before the clock runs."""

    def __init__(self, function, start):
        function(start), function(start)
        self.function, self.calls = function, 0

    def __call__(self, parameters):
        self.calls += 1
        return self.function(parameters)


def squares(x, y, start):
    """Least squares by Levenberg and Marquardt's method, within a trust region."""

    def residuals(p):
        return curve(p, x) - y

    def jacobian(p):
        return tracker.jacobian(residuals, p)[0]

    ways = {"differences": (residuals, None), "tracker": (residuals, jacobian)}
    ways["compiled"] = tracker.jit(residuals), tracker.jit(jacobian)
    for how, (function, derivative) in ways.items():
        function = Counted(function, start)
        jac = Counted(derivative, start) if derivative else "2-point"
        before = perf_counter()
        found = least_squares(function, start, jac=jac, x_scale="jac", xtol=1e-10)
        calls = function.calls + (jac.calls if derivative else 0)
        yield how, Fit(found.x, float(found.cost), calls, perf_counter() - before)


def robust(x, y, start):
    """The same curve by BFGS on a loss that outliers do not rule (pseudo-Huber)."""

    def loss(p):
        r = (curve(p, x) - y) / SCALE
        return SCALE * np.sum(np.sqrt(1.0 + r * r) - 1.0)

    ways = {"differences": loss, "tracker": tracker.value_and_grad(loss)}
    ways["compiled"] = tracker.value_and_grad(tracker.jit(loss))
    for how, function in ways.items():
        function, jac = Counted(function, start), how != "differences"
        before = perf_counter()
        found = minimize(function, start, jac=jac, method="BFGS", options={"gtol": 1e-4})
        yield how, Fit(found.x, float(found.fun), function.calls, perf_counter() - before)


def draw(x, y, names, parameters):
    index = x @ parameters[:10] + parameters[10]
    order = np.argsort(index)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.scatter(index, y, s=9, alpha=0.5)
    left.plot(index[order], curve(parameters, x)[order], color="tab:red", lw=2)
    left.set(xlabel="index of ten measurements", ylabel="progression (score)", title="robust fit")
    right.barh(names, parameters[:10])
    right.axvline(0.0, color="black", lw=0.8)
    right.set(title="weight of each measurement", xlabel="index per standard deviation")
    return figure


def main():
    x, y, names = load()
    start = np.array([0.1] * 10 + [0.0, y.min(), np.ptp(y)])
    for ways in (squares, robust):
        print(f"{ways.__name__}: derivatives, loss, calls, ms")
        for how, fit in ways(x, y, start):
            print(f"  {how:12} {fit.cost:12.4f} {fit.calls:5} {1e3 * fit.seconds:8.1f}")
    draw(x, y, names, fit.parameters).savefig("curve_fit.png", dpi=110)
    print("saved curve_fit.png")


if __name__ == "__main__":
    main()
