"""Fit a curve to real data with SciPy's optimisers and exact derivatives.

The data: 442 patients, ten measurements each, and how their diabetes progressed within a year (it
comes with scikit-learn; nothing is downloaded). The model is a saturating curve of one index of all
measurements, y = low + range / (1 + exp(-(x @ w + shift))): thirteen parameters, plain NumPy.

`scipy.optimize.least_squares` takes the residuals' jacobian, `scipy.optimize.minimize` the value
and gradient of a robust loss. Without them, SciPy takes finite differences: the same fit, with
many more calls of the model.

Run: python examples/curve_fit.py        (a picture is saved in examples/out/)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import least_squares, minimize
from sklearn.datasets import load_diabetes

import tracker

OUT = Path(__file__).parent / "out"


def load():
    """Standardised measurements (442, 10), and progression (442,)."""
    data = load_diabetes(scaled=False)
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    return x, data.target, data.feature_names


def curve(parameters, x):
    """The model: parameters are w (10), low, range, shift."""
    w, low, extent, shift = parameters[:10], parameters[10], parameters[11], parameters[12]
    return low + extent / (1.0 + np.exp(-(x @ w + shift)))


def start(x, y):
    """Where every fit begins."""
    return np.concatenate([np.full(10, 0.1), [y.min(), np.ptp(y), 0.0]])


@dataclass
class Fit:
    """One fit: what was found, and what it cost."""

    how: str
    parameters: np.ndarray
    cost: float
    calls: int
    seconds: float


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


def squares(x, y) -> list[Fit]:
    """Least squares: with SciPy's differences, with an eager jacobian, with a compiled one."""

    def residuals(p):
        return curve(p, x) - y

    def jacobian(p):
        return tracker.jacobian(residuals, p)[0]

    ways = {
        "differences": (residuals, "2-point"),
        "tracker": (residuals, jacobian),
        "tracker, compiled": (tracker.jit(residuals), tracker.jit(jacobian)),
    }
    fits = []
    for how, (function, jac) in ways.items():
        if jac != "2-point":
            function(start(x, y)), jac(start(x, y))  # compile before the clock runs
        counted = Counted(function)
        derivative = jac if isinstance(jac, str) else Counted(jac)
        before = time.perf_counter()
        found = least_squares(counted, start(x, y), jac=derivative, x_scale="jac", xtol=1e-10)
        seconds = time.perf_counter() - before
        calls = counted.calls + getattr(derivative, "calls", 0)
        fits.append(Fit(how, found.x, float(found.cost), calls, seconds))
    return fits


def robust(x, y) -> list[Fit]:
    """The same curve by BFGS on a loss that outliers do not rule (pseudo-Huber)."""
    scale = 40.0

    def loss(p):
        r = (curve(p, x) - y) / scale
        return scale * np.sum(np.sqrt(1.0 + r * r) - 1.0)

    ways = {
        "differences": (loss, False),
        "tracker": (tracker.value_and_grad(loss), True),
        "tracker, compiled": (tracker.value_and_grad(tracker.jit(loss)), True),
    }
    fits = []
    for how, (function, jac) in ways.items():
        if jac:
            function(start(x, y))
        counted = Counted(function)
        before = time.perf_counter()
        found = minimize(counted, start(x, y), jac=jac, method="BFGS", options={"gtol": 1e-4})
        seconds = time.perf_counter() - before
        fits.append(Fit(how, found.x, float(found.fun), counted.calls, seconds))
    return fits


def draw(x, y, names, fit: Fit, path: Path) -> None:
    """The curve among the data, and what each measurement counts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    w = fit.parameters[:10]
    index = x @ w + fit.parameters[12]
    order = np.argsort(index)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.scatter(index, y, s=9, alpha=0.5, color="tab:blue")
    left.plot(index[order], curve(fit.parameters, x)[order], color="tab:red", lw=2)
    left.set(xlabel="index of ten measurements", ylabel="progression", title="diabetes: the fit")
    right.barh(names, w, color="tab:blue")
    right.axvline(0.0, color="black", lw=0.8)
    right.set(title="weight of each measurement")
    path.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    x, y, names = load()
    console = Console()
    for title, fits in {
        "least squares (scipy.optimize.least_squares)": squares(x, y),
        "robust loss (scipy.optimize.minimize, BFGS)": robust(x, y),
    }.items():
        table = Table(title=title)
        for column in ("derivatives", "loss", "calls", "ms"):
            table.add_column(column, justify="left" if column == "derivatives" else "right")
        for fit in fits:
            table.add_row(fit.how, f"{fit.cost:.4f}", str(fit.calls), f"{1e3 * fit.seconds:.1f}")
        console.print(table)
    draw(x, y, names, fits[-1], OUT / "curve_fit.png")
    console.print(f"saved {OUT / 'curve_fit.png'}")


if __name__ == "__main__":
    main()
