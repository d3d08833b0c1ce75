"""
Hamiltonian Monte Carlo, compiled
=================================

Teaches that a gradient may stand inside a compiled function: a trajectory of the sampler, twenty
leapfrog steps with a gradient in each, is one jitted function whose loop stays a loop in machine
code. The model is Bayesian logistic regression: which measurements tell benign from malignant? The
data are 569 tumours of the Wisconsin breast-cancer study, which come with scikit-learn.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_breast_cancer

import tracker

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
    return np.sum(y * logits - np.logaddexp(0.0, logits)) - 0.5 * np.sum(w * w) / PRIOR**2


def trajectory(w, momentum, step, x, y):
    """Where a particle at `w` gets in STEPS leapfrog steps, and its energy there."""
    for _ in range(STEPS):
        momentum = momentum + 0.5 * step * tracker.gradient(log_density, w, x, y)[0]
        w = w + step * momentum
        momentum = momentum + 0.5 * step * tracker.gradient(log_density, w, x, y)[0]
    return w, log_density(w, x, y) - 0.5 * np.sum(momentum * momentum)


def sample(seed, draws=1000, warmup=500, move=trajectory):
    """Draws of one chain (n, 31), and the share of proposals that it accepted. During warm-up the
    step size follows acceptance (Robbins and Monro, 1951)."""
    (x, y), _, names = load()
    rng = np.random.default_rng(seed)
    w, step, kept, accepted = 0.1 * rng.normal(size=len(names)), 0.02, [], 0.0
    density = log_density(w, x, y)
    for i in track(range(warmup + draws), f"chain {seed}", console=Console(stderr=True)):
        momentum = rng.normal(size=w.shape)
        before = density - 0.5 * momentum @ momentum
        proposal, after = move(w, momentum, step, x, y)
        chance = np.exp(min(0.0, after - before))
        if rng.random() < chance:
            w, density = proposal, log_density(proposal, x, y)
        if i < warmup:
            step *= np.exp((chance - 0.8) / np.sqrt(1.0 + i))
        else:
            kept.append(w)
            accepted += chance / draws
    return np.array(kept), accepted


def r_hat(draws):
    """Gelman and Rubin's measure of how well chains (chains, n, 31) agree: 1 when they do."""
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = draws.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt(1.0 - 1.0 / draws.shape[1] + between / within)


def draw(draws, p, y, names):
    order = np.argsort(draws.mean(axis=0))
    low, middle, high = np.quantile(draws[:, order], [0.05, 0.5, 0.95], axis=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 7), width_ratios=(3, 2))
    colours = np.where((low > 0) | (high < 0), "tab:red", "tab:gray")
    left.hlines(range(len(order)), low, high, colors=colours, lw=3, alpha=0.6)
    left.scatter(middle, range(len(order)), c=colours, s=18, zorder=3)
    left.axvline(0.0, color="black", lw=0.8)
    left.set_yticks(range(len(order)), [names[i] for i in order], fontsize=8)
    left.set(title="coefficients: median and 90 % interval", xlabel="towards malignant")
    bins = np.linspace(0, 1, 21)
    right.hist([p[y == 0], p[y == 1]], bins, stacked=True, color=["tab:blue", "tab:red"])
    right.legend(["benign", "malignant"])
    right.set(title="tumours not seen before", xlabel="probability of malignancy", ylabel="tumours")
    figure.tight_layout()
    return figure


def main():
    move, before = tracker.jit(trajectory), perf_counter()
    chains, accepted = zip(*(sample(seed, move=move) for seed in range(4)), strict=True)
    each = (perf_counter() - before) / (4 * 1500)
    print(f"{STEPS} steps with two gradients each, compiled: {1e6 * each:.0f} us")
    print("accepted:", *(f"{share:.2f}" for share in accepted), end="; ")
    print(f"R-hat at most {r_hat(np.array(chains)).max():.3f}")
    _, (x, y), names = load()
    draws = np.concatenate(chains)
    p = np.mean(1.0 / (1.0 + np.exp(-x @ draws.T)), axis=1)
    print(f"test accuracy of the posterior's predictions: {100 * np.mean((p > 0.5) == y):.1f} %")
    draw(draws, p, y, names).savefig("hmc.png", dpi=110)
    print("saved hmc.png")


if __name__ == "__main__":
    main()
