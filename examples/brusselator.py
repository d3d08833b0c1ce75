"""
Patterns of a chemical reaction: a stiff equation with a sparse Jacobian
========================================================================

Teaches ``tracker.sparse``: two substances react and diffuse on a grid (the Brusselator), 8,192
unknowns whose equations each depend on six of them. The places of the Jacobian's entries are found
in the code, a dozen products give all of them, and SciPy's stiff solver takes the sparse matrix,
where the dense one would have half a gigabyte.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.integrate import solve_ivp

import tracker
from tracker import sparse

SIDE, LENGTH = 64, 48.0  # cells along an edge of the square, and its length
A, B = 3.0, 9.5  # what is fed in
DIFFUSION = np.array([2.0, 14.0])[:, None, None]  # of the two substances: the second is faster


def laplacian(c):
    """The Laplacian of fields (2, SIDE, SIDE) on a torus."""
    around = sum(np.roll(c, shift, axis) for shift in (1, -1) for axis in (1, 2))
    return (around - 4.0 * c) * (SIDE / LENGTH) ** 2


def rates(t, y):
    """dy/dt of all concentrations, as a vector."""
    c = y.reshape(2, SIDE, SIDE)
    u, v = c
    reaction = np.stack([A - (B + 1.0) * u + u**2 * v, B * u - u**2 * v])
    return (reaction + DIFFUSION * laplacian(c)).ravel()


def start(seed=0):
    """The steady state, with a little noise, which the reaction amplifies to patterns."""
    noise = 0.05 * np.random.default_rng(seed).normal(size=(2, SIDE, SIDE))
    return (np.array([A, B / A])[:, None, None] * (1.0 + noise)).ravel()


def develop(y, jacobian, end=12.0, looks=8):
    """The states at equal times until the end, (looks + 1, 2, SIDE, SIDE), and how many linear
    systems were factorised."""
    states, count = [y], 0
    ends = np.linspace(0.0, end, looks + 1)
    console = Console(stderr=True)
    for t0, t1 in zip(track(ends[:-1], "reacting", console=console), ends[1:], strict=True):
        part = solve_ivp(
            rates, (t0, t1), states[-1], method="BDF", jac=jacobian, rtol=1e-4, atol=1e-6
        )
        states.append(part.y[:, -1])
        count += part.nlu
    return np.reshape(states, (-1, 2, SIDE, SIDE)), count


def check(jacobian, y, seed=1):
    """The largest difference, relative to the largest number, from a product by forward mode."""
    v = np.random.default_rng(seed).normal(size=y.size)
    _, want = tracker.jvp(lambda y: rates(0.0, y), (y,), (v,))
    return np.max(np.abs(jacobian(0.0, y) @ v - want)) / np.max(np.abs(want))


def draw(states, matrix, colours):
    figure, axes = plt.subplots(1, 4, figsize=(15, 4), layout="constrained")
    axes[0].spy(matrix[: 3 * SIDE, : 3 * SIDE], markersize=1.5)
    axes[0].set(title="a corner of the Jacobian", xlabel="unknown", ylabel="equation")
    cells = colours.reshape(2, SIDE, SIDE)[0, :16, :16]
    axes[1].imshow(cells, "tab20", origin="lower")
    axes[1].set(title=f"{colours.max() + 1} colours: columns of one product", xlabel="x")
    for axis, at in zip(axes[2:], (len(states) // 2, -1), strict=True):
        edges = (0, LENGTH, 0, LENGTH)
        image = axis.imshow(states[at, 0], "magma", origin="lower", extent=edges)
        axis.set(title="halfway" if at > 0 else "at the end", xlabel="x")
    figure.colorbar(image, ax=axes[2:], label="first substance")
    return figure


def main():
    y = start()
    before = time.perf_counter()
    jacobian = sparse.jacobian(rates, 0.0, y, argnum=1)
    jacobian(0.0, y)
    found = time.perf_counter() - before
    dense = 8e-6 * y.size**2
    print(f"pattern, colours and machine code: {found:.1f} s; the dense one has {dense:.0f} MB")
    seconds = []
    for _ in range(20):
        before = time.perf_counter()
        matrix = jacobian(0.0, y)
        seconds.append(time.perf_counter() - before)
    print(f"one Jacobian: {1e3 * min(seconds):.2f} ms, {matrix.nnz} entries")
    print(f"differs from forward mode by {check(jacobian, y):.1e}")
    states, count = develop(y, jacobian)
    spread = np.std(states[:, 0], axis=(1, 2))
    print(f"{count} systems factorised; spread {spread[0]:.2f} at first, {spread[-1]:.2f} at last")
    draw(states, matrix, jacobian.colours).savefig("brusselator.png", dpi=110)
    print("saved brusselator.png")


if __name__ == "__main__":
    main()
