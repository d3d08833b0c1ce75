"""
A density for many stars: a fit on all processors, or on a cluster
==================================================================

Teaches ``tracker.distributed``: 240,000 stars of a spiral galaxy are split into shards, which stay
with the processes that got them. A step sends the parameters to each process, which compiles the
loss once, and adds up value and gradient. SciPy's optimiser sees a function like any other. The
same script runs on dask, ray and MPI: see ``engine``.
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from tracker.distributed import value_and_grad

PARTS, STARS, SHARDS = 24, 240_000, 16


def stars(count, seed=0):
    """Positions (count, 2) of a bulge and two arms, which are logarithmic spirals."""
    rng = np.random.default_rng(seed)
    turn = 5.0 * np.sqrt(rng.random(count))
    arm = np.pi * rng.integers(2, size=count)
    radius = 0.4 * np.exp(0.3 * turn)
    arms = radius * np.array([np.cos(turn + arm), np.sin(turn + arm)])
    noise = rng.normal(size=(2, count))
    is_in_bulge = rng.random(count) < 0.25
    return np.where(is_in_bulge, 0.18 * noise, arms + 0.08 * radius * noise).T


def log_density(w, x):
    """Of a mixture of normal distributions: a row of `w` has the weight of a part, its mean, and
    the three numbers of a triangular matrix that makes its stars standard normal."""
    weight, left, low, a, b, c = w.reshape(PARTS, 6).T
    dx, dy = x[:, :1] - left, x[:, 1:] - low
    u, v = np.exp(a) * dx, np.exp(b) * dy + c * dx
    parts = log_softmax(weight) + a + b - 0.5 * (u**2 + v**2) - np.log(2 * np.pi)
    return logsumexp(parts, axis=1)


def loss(w, shard):
    """What is added up over the shards; `w` is the same at all of them."""
    return -np.sum(log_density(w, shard))


def start(seed=1):
    w = np.zeros((PARTS, 6))
    w[:, 1:3] = 0.7 * np.random.default_rng(seed).normal(size=(PARTS, 2))
    w[:, 3:5] = 1.0
    return w.ravel()


def fit(step, count, iterations=120):
    """The parameters, and the loss of a star after each iteration."""
    losses = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("fitting", total=iterations)

        def look(intermediate_result):
            losses.append(intermediate_result.fun)
            progress.advance(task)

        def for_each_star(w):
            value, gradient = step(w)
            return value / count, gradient / count

        how = {"method": "L-BFGS-B", "options": {"maxiter": iterations, "maxcor": 30}}
        found = minimize(for_each_star, start(), jac=True, callback=look, **how)
    return found.x, losses


def engine(name):
    """What `value_and_grad` takes, and the shards of this process: with MPI each has its own."""
    if name == "mpi":  # mpiexec -n 4 python -m mpi4py galaxy.py mpi
        from mpi4py.MPI import COMM_WORLD

        return COMM_WORLD, slice(COMM_WORLD.rank, None, COMM_WORLD.size)
    if name == "dask":
        from dask.distributed import Client

        return Client(), slice(None)
    return name if name == "ray" else int(name), slice(None)


def draw(shards, w, losses):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    axes[0].plot(*shards[0][:4000].T, ",", color="midnightblue", alpha=0.6)
    edges = (-2.2, 2.2, -2.2, 2.2)
    axes[0].set(xlim=edges[:2], ylim=edges[2:], aspect="equal", title="stars of one shard")
    side = np.linspace(*edges[:2], 220)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    density = np.exp(0.5 * log_density(w, grid)).reshape(220, 220)
    axes[1].imshow(density, "magma", origin="lower", extent=edges)
    axes[1].set(title=f"the root of the density: {PARTS} normal distributions")
    axes[2].plot(losses)
    axes[2].set(title="minus log density of a star", xlabel="iteration")
    return figure


def main():
    given, own = engine(sys.argv[1] if sys.argv[1:] else "2")
    shards = np.array_split(stars(STARS), SHARDS)
    with value_and_grad(loss, shards[own], given) as step:
        before = time.perf_counter()
        w, losses = fit(step, STARS)
        print(f"{len(losses)} iterations in {time.perf_counter() - before:.1f} s by {given}")
    if own.start in (None, 0):
        draw(shards, w, losses).savefig("galaxy.png", dpi=110)
        print("saved galaxy.png")


if __name__ == "__main__":
    main()
