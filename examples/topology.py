"""
Topology optimisation of a beam
===============================

Teaches that sparse matrices are differentiated as SciPy users write them: ``coo_matrix`` assembles
the stiffness from the density of each element, ``spsolve`` gives displacements, and one gradient
says what each element is worth. Half of the steel of a beam of 6 m by 1 m must go, and it must
stay as stiff as can be (the method of Bendsoe and Sigmund, 2003). Everything is computed.
"""

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.ndimage import gaussian_filter
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve

import tracker

YOUNG, POISSON, THICKNESS, FORCE = 210e9, 0.3, 0.01, 50e3  # Pa, 1, m, N (on each half)
SHARE, PENALTY, WIDTH = 0.5, 3.0, 0.8  # of steel; power of density; of the filter, in elements


def element():
    """Stiffness of a square of four nodes in plane stress, (8, 8), by Gauss's quadrature (N/m)."""
    law = np.array([[1, POISSON, 0], [POISSON, 1, 0], [0, 0, (1 - POISSON) / 2]])
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    stiffness = np.zeros((8, 8))
    for point in corners / np.sqrt(3.0):
        slope = corners * (1.0 + corners[:, ::-1] * point[::-1]) / 2.0
        strain = np.zeros((3, 8))
        strain[0, ::2], strain[1, 1::2] = slope.T
        strain[2, 1::2], strain[2, ::2] = slope.T
        stiffness += strain.T @ law @ strain / 4.0
    return YOUNG * THICKNESS / (1.0 - POISSON**2) * stiffness


class Beam:
    """The right half of a beam on two supports, in elements of 1 m / `height`: its left edge cannot
    move sideways, as the other half mirrors it, and bears half of the force at its top."""

    def __init__(self, height=20):
        self.shape = width, height = 3 * height, height
        node = np.arange((width + 1) * (height + 1)).reshape(width + 1, height + 1)
        corners = [node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:]]
        freedoms = np.stack([2 * c.ravel() + i for c in corners for i in (0, 1)], axis=1)
        self.rows, self.columns = np.repeat(freedoms, 8, axis=1), np.tile(freedoms, 8)
        self.force = np.zeros(2 * node.size)
        self.force[2 * node[0, -1] + 1] = -FORCE
        fixed = [*(2 * node[0]), 2 * node[-1, 0] + 1]
        self.free = np.setdiff1d(np.arange(2 * node.size), fixed)

    def steel(self, density):
        """Density without details that are smaller than an element."""
        return gaussian_filter(density, WIDTH, mode="nearest")

    def displacements(self, density):
        """Of all nodes, x and y in turn (m)."""
        stiff = 1e-6 + (1.0 - 1e-6) * self.steel(density) ** PENALTY
        values = stiff.reshape(-1, 1, 1) * element()
        matrix = coo_matrix((values.ravel(), (self.rows.ravel(), self.columns.ravel())))
        moved = np.zeros_like(self.force)
        moved[self.free] = spsolve(matrix.tocsc()[self.free][:, self.free], self.force[self.free])
        return moved

    def work(self, density):
        """What the force does while the beam gives way, in J: the less, the stiffer."""
        return 0.5 * self.force @ self.displacements(density)


def improve(density, worth, cost):
    """Moves each density to where its worth is the multiplier times its cost (optimality criteria);
    the multiplier, that which keeps the share of steel, is found by bisection."""
    low, high = 0.0, 2.0 * np.max(worth / cost)
    while high - low > 1e-9 * high:
        multiplier = 0.5 * (low + high)
        best = density * np.sqrt(worth / (multiplier * cost))
        new = np.clip(np.clip(best, density - 0.2, density + 0.2), 0.001, 1.0)
        low, high = (multiplier, high) if np.sum(cost * new) > SHARE else (low, multiplier)
    return new


def optimise(beam, steps=60):
    """Densities after each step, and the work (J) before it."""
    densities, works = [np.full(beam.shape, SHARE)], []
    cost = tracker.gradient(lambda d: np.mean(beam.steel(d)), densities[0])[0]
    for _ in track(range(steps), "optimising", console=Console(stderr=True)):
        work, slope = tracker.value_and_grad(beam.work)(densities[-1])
        densities.append(improve(densities[-1], -slope, cost))
        works.append(work)
    return densities, works


def draw(beam, densities, works):
    figure, axes = plt.subplot_mosaic("aad;bbd;ccd", figsize=(11, 4.5), layout="constrained")
    for axis, step in {"a": 1, "b": len(works) // 6, "c": len(works)}.items():
        steel = beam.steel(densities[step]).T
        whole = np.hstack([steel[:, ::-1], steel])
        extent = -3, 3, 0, 1
        axes[axis].imshow(whole, cmap="gray_r", vmin=0, vmax=1, origin="lower", extent=extent)
        axes[axis].set(ylabel="height (m)", title=f"steps: {step}")
    axes["c"].set(xlabel="along the beam (m)")
    axes["d"].plot(2e3 * np.array(works) / FORCE)
    axes["d"].set(xlabel="step", ylabel="deflection in the middle (mm)", ylim=0)
    return figure


def main():
    beam = Beam()
    densities, works = optimise(beam)
    first, last = (2e3 * work / FORCE for work in (works[0], works[-1]))
    print(f"deflection under {2e-3 * FORCE:.0f} kN: {first:.2f} mm evenly, {last:.2f} mm optimised")
    print(f"steel: {np.mean(beam.steel(densities[-1])):.4f} of the whole")
    draw(beam, densities, works).savefig("topology.png", dpi=110)
    print("saved topology.png")


if __name__ == "__main__":
    main()
