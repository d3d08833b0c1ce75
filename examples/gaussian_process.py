"""
Terrain from 300 points: a Gaussian process
===========================================

Teaches that derivatives go through matrix factorisations: the marginal likelihood of a Gaussian
process is a Cholesky factor and a triangular solve, and its gradient finds the hyperparameters,
which stand in a dict. The kernel may stretch in any direction, and finds that of the ridges. The
data are heights in the Appalachians near Jacksboro, Tennessee, which come with matplotlib.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data
from rich.console import Console
from rich.progress import Progress
from scipy.linalg import cho_solve, solve_triangular

import tracker

START = {
    "height": np.log(50.0),  # m: standard deviation of the terrain
    "along": np.log(1.0),  # km: how far heights are alike, along the ridges
    "across": np.log(0.5),  # km: and across them
    "angle": 0.5,  # rad: of the ridges, from east towards north
    "noise": np.log(5.0),  # m: what the kernel cannot explain
    "mean": 400.0,  # m
}


def load(points=300, size=120, seed=0):
    """East and north (km), heights (m) on a grid of `size` times `size`, and some of its points."""
    with get_sample_data("jacksboro_fault_dem.npz") as dem:
        heights = dem["elevation"][100 : 100 + size, 60 : 60 + size].astype(float)
        degree = 111.2  # km of latitude
        north = -degree * dem["dy"] * np.arange(size)
        east = degree * np.cos(np.radians(dem["ymin"])) * dem["dx"] * np.arange(size)
    grid = np.stack(np.meshgrid(east, north - north[-1]), axis=-1)
    chosen = np.random.default_rng(seed).choice(size * size, points, replace=False)
    return grid, heights, chosen


def kernel(p, a, b):
    """Matern's kernel of order 3/2 on coordinates that are turned and stretched: (n, 2), (m, 2)."""
    c, s = np.cos(p["angle"]), np.sin(p["angle"])
    stretch = np.array([[c, s], [-s, c]]) / np.exp(np.array([[p["along"]], [p["across"]]]))
    d = (a @ stretch.T)[:, None] - b @ stretch.T
    r = np.sqrt(3.0) * np.hypot(d[..., 0], d[..., 1])
    return np.exp(2.0 * p["height"]) * (1.0 + r) * np.exp(-r)


def factor(p, x):
    return np.linalg.cholesky(kernel(p, x, x) + np.exp(2.0 * p["noise"]) * np.eye(len(x)))


def cost(p, x, y):
    """The negative logarithm of the marginal likelihood."""
    L = factor(p, x)
    z = solve_triangular(L, y - p["mean"], lower=True)
    return 0.5 * z @ z + np.sum(np.log(np.diag(L))) + 0.5 * len(y) * np.log(2.0 * np.pi)


def predict(p, x, y, at):
    """Mean and standard deviation of the terrain (m) at the points `at`, (m, 2)."""
    L = factor(p, x)
    k = kernel(p, x, at)
    mean = p["mean"] + k.T @ cho_solve((L, True), y - p["mean"])
    variance = np.exp(2.0 * p["height"]) - np.sum(solve_triangular(L, k, lower=True) ** 2, axis=0)
    return mean, np.sqrt(variance)


def fit(x, y):
    """SciPy's result, whose `x` has the structure of the hyperparameters."""
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("fitting", total=None)
        return tracker.optim.minimize(
            tracker.jit(lambda p: cost(p, x, y)), START, callback=lambda _: progress.advance(bar)
        )


def draw(grid, heights, chosen, mean, sd):
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.3), layout="constrained", sharey=True)
    extent = 0.0, grid[..., 0].max(), 0.0, grid[..., 1].max()
    titles = "height, and the points given", "predicted height", "standard deviation"
    for axis, title, values in zip(axes, titles, (heights, mean, sd), strict=True):
        lo, hi = (heights.min(), heights.max()) if values is not sd else (0.0, sd.max())
        colours = "terrain" if values is not sd else "magma"
        image = axis.imshow(values, cmap=colours, extent=extent, vmin=lo, vmax=hi)
        axis.set(title=title, xlabel="east (km)")
        figure.colorbar(image, ax=axis, shrink=0.8, label="m")
    axes[0].plot(*grid.reshape(-1, 2)[chosen].T, "k.", ms=2)
    axes[0].set(ylabel="north (km)")
    return figure


def main():
    grid, heights, chosen = load()
    x, y = grid.reshape(-1, 2)[chosen], heights.ravel()[chosen]
    found = fit(x, y)
    p = found.x
    print(f"log marginal likelihood {-found.fun:.1f} after {found.nfev} values and gradients")
    for name in ("height", "along", "across", "noise"):
        print(f"  {name:7} {np.exp(p[name]):8.2f} {'km' if 'a' in name else 'm'}")
    print(f"  ridges run {np.degrees(p['angle']):.0f} degrees north of east")
    mean, sd = (a.reshape(heights.shape) for a in predict(p, x, y, grid.reshape(-1, 2)))
    rest = np.delete(np.arange(heights.size), chosen)
    error = (mean - heights).ravel()[rest]
    off, terrain = np.std(error), np.std(heights)
    print(f"off by {off:.0f} m where nothing was given (the terrain varies by {terrain:.0f} m)")
    inside = np.mean(abs(error) < 2 * np.hypot(sd.ravel()[rest], np.exp(p["noise"])))
    print(f"within two standard deviations: {100 * inside:.0f} %")
    draw(grid, heights, chosen, mean, sd).savefig("gaussian_process.png", dpi=110)
    print("saved gaussian_process.png")


if __name__ == "__main__":
    main()
