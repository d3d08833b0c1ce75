"""Hamiltonian Monte Carlo, compiled: which measurements tell benign from malignant?

Bayesian logistic regression on the Wisconsin breast-cancer data (569 tumours, 30 measurements; it
comes with scikit-learn, nothing is downloaded). The log-density is plain NumPy. A trajectory of the
sampler, twenty leapfrog steps with a gradient in each, is one jitted function: a loop that stays a
loop in machine code.

Run: python examples/hmc.py        (a picture is saved in examples/out/)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.datasets import load_breast_cancer

import tracker

OUT = Path(__file__).parent / "out"
STEPS, PRIOR = 20, 1.0  # of a trajectory; standard deviation of the coefficients' prior


def load():
    """Standardised measurements with a column of ones (n, 31), and 1.0 for malignant, both split
    into training and test parts; names of the columns."""
    data = load_breast_cancer()
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    x = np.hstack([x, np.ones((len(x), 1))])
    y = 1.0 - data.target
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:455], order[455:]
    return (x[train], y[train]), (x[test], y[test]), [*data.feature_names, "intercept"]


def log_density(w, x, y):
    """Log posterior of the coefficients, up to a constant."""
    logits = x @ w
    fit = np.sum(y * logits - np.logaddexp(0.0, logits))
    return fit - 0.5 * np.sum(w * w) / PRIOR**2


def trajectory(w, momentum, step, x, y):
    """Where a particle at `w` gets in STEPS leapfrog steps, and its energy there."""

    def slope(w):
        return tracker.gradient(log_density, w, x, y)[0]

    def leap(_, state):
        w, momentum = state
        momentum = momentum + 0.5 * step * slope(w)
        w = w + step * momentum
        return w, momentum + 0.5 * step * slope(w)

    w, momentum = tracker.fori_loop(0, STEPS, leap, (w, momentum))
    return w, log_density(w, x, y) - 0.5 * np.sum(momentum * momentum)


@dataclass
class Chain:
    """Draws (n, 31), the share of accepted proposals, the step size that was found."""

    draws: np.ndarray
    accepted: float
    step: float


def sample(move, x, y, draws: int, warmup: int, rng: np.random.Generator) -> Chain:
    """One chain. During warm-up the step size follows acceptance (Robbins and Monro, 1951)."""
    w = 0.1 * rng.normal(size=x.shape[1])
    density = log_density(w, x, y)
    step, kept, accepted = 0.02, [], 0
    for i in range(warmup + draws):
        momentum = rng.normal(size=w.shape)
        before = density - 0.5 * momentum @ momentum
        proposal, after = move(w, momentum, step, x, y)
        chance = float(np.exp(min(0.0, after - before)))
        if rng.random() < chance:
            w = proposal
            density = log_density(w, x, y)
        if i < warmup:
            step *= np.exp((chance - 0.8) / np.sqrt(1.0 + i))
        else:
            kept.append(w)
            accepted += chance
    return Chain(np.array(kept), accepted / draws, step)


def r_hat(chains: list[Chain]) -> np.ndarray:
    """Gelman and Rubin's measure of how well the chains agree: 1 when they do."""
    draws = np.stack([chain.draws for chain in chains])
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = draws.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt((within * (1 - 1 / draws.shape[1]) + between) / within)


def run(chains: int = 4, draws: int = 1000, warmup: int = 500, compiled: bool = True):
    """Returns the chains, and seconds taken."""
    (x, y), _, _ = load()
    move = tracker.jit(trajectory) if compiled else trajectory
    before = time.perf_counter()
    found = [
        sample(move, x, y, draws, warmup, np.random.default_rng(seed)) for seed in range(chains)
    ]
    return found, time.perf_counter() - before


def predictions(chains: list[Chain], x) -> np.ndarray:
    """The posterior's probability of malignancy, for each row of x."""
    draws = np.concatenate([chain.draws for chain in chains])
    return np.mean(1.0 / (1.0 + np.exp(-(x @ draws.T))), axis=1)


def draw(chains: list[Chain], test, names, path: Path) -> None:
    """The posterior of each coefficient, and how sure the predictions are."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    draws = np.concatenate([chain.draws for chain in chains])
    order = np.argsort(draws.mean(axis=0))
    low, middle, high = np.quantile(draws[:, order], [0.05, 0.5, 0.95], axis=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 7), width_ratios=(3, 2))
    rows = np.arange(len(order))
    sure = (low > 0) | (high < 0)
    colours = np.where(sure, "tab:red", "tab:gray")
    left.hlines(rows, low, high, colors=colours, lw=3, alpha=0.6)
    left.scatter(middle, rows, c=colours, s=18, zorder=3)
    left.axvline(0.0, color="black", lw=0.8)
    left.set_yticks(rows, [names[i] for i in order], fontsize=8)
    left.set(title="coefficients: median and 90 % interval", xlabel="towards malignant")
    x, y = test
    p = predictions(chains, x)
    bins = np.linspace(0, 1, 21)
    right.hist([p[y == 0], p[y == 1]], bins, stacked=True, color=["tab:blue", "tab:red"])
    right.legend(["benign", "malignant"])
    right.set(title="tumours not seen before", xlabel="probability of malignancy")
    path.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    console = Console()
    chains, seconds = run()
    _, test, names = load()
    _, eager = run(chains=1, draws=50, warmup=50, compiled=False)
    total = sum(len(chain.draws) + 500 for chain in chains)
    console.print(
        f"{len(chains)} chains, {total} trajectories of {STEPS} steps: {seconds:.1f} s compiled "
        f"({1e6 * seconds / total:.0f} us a trajectory; eager {1e4 * eager:.0f} us)"
    )
    shares = ", ".join(f"{chain.accepted:.2f}" for chain in chains)
    console.print(f"accepted: {shares};  R-hat at most {r_hat(chains).max():.3f}")
    right = np.mean((predictions(chains, test[0]) > 0.5) == test[1])
    console.print(f"test accuracy of the posterior's predictions: {100 * right:.1f} %")
    draw(chains, test, names, OUT / "hmc.png")
    console.print(f"saved {OUT / 'hmc.png'}")


if __name__ == "__main__":
    main()
