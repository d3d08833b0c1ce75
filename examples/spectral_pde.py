"""
Weather from a few sensors: assimilation in a chaotic PDE
=========================================================

Teaches that gradients go through ``np.fft`` and complex numbers: a pseudo-spectral solver steps the
Kuramoto-Sivashinsky equation, u_t + u u_x + u_xx + u_xxxx = 0, and the gradient of its misfit to
noisy sensors in the initial state, through all steps, finds this state, as weather services do
(4D-Var). The truth and its sensors are computed.
"""

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.optimize import minimize

import tracker

POINTS, LENGTH, DT, EVERY = 128, 60.0, 0.1, 5  # grid; steps between two looks at the sensors
SENSORS, NOISE, SPREAD = slice(4, None, 8), 0.2, 1.5  # sixteen; standard deviations
X = LENGTH * np.arange(POINTS) / POINTS
K = 2.0 * np.pi * np.fft.rfftfreq(POINTS, LENGTH / POINTS)
HALF = np.exp(0.5 * DT * (K**2 - K**4))  # what the linear terms do in half a step, exactly
LOW = 2.0 / 3.0 * K[-1] > K  # products of these do not alias


def slope(v):
    """-u u_x in Fourier space."""
    return -0.5j * K * LOW * np.fft.rfft(np.fft.irfft(v, POINTS) ** 2)


def step(v):
    """Runge and Kutta's method of fourth order with an integrating factor, in Fourier space."""
    a = slope(v)
    b = slope(HALF * (v + 0.5 * DT * a))
    c = slope(HALF * v + 0.5 * DT * b)
    d = slope(HALF * (HALF * v + DT * c))
    return HALF**2 * (v + DT / 6.0 * a) + DT / 6.0 * (2.0 * HALF * (b + c) + d)


def solve(u, looks):
    """The states after every EVERY steps, (looks + 1, POINTS)."""
    v = np.fft.rfft(u)
    states = [u]
    for _ in range(looks):
        for _ in range(EVERY):
            v = step(v)
        states.append(np.fft.irfft(v, POINTS))
    return np.array(states)


def smooth(white):
    """An initial state of the size and smoothness that is expected, from independent numbers."""
    spectrum = (K > 0.0) * np.exp(-0.5 * K**2)
    size = np.sqrt(np.mean(spectrum**2))
    return SPREAD / size * np.fft.irfft(spectrum * np.fft.rfft(white), POINTS)


def cost(white, measured):
    """Minus the logarithm of the posterior density of the initial state, up to a constant."""
    misfit = (solve(smooth(white), len(measured) - 1)[:, SENSORS] - measured) / NOISE
    return 0.5 * np.sum(misfit**2) + 0.5 * np.sum(white**2)


def simulate(looks=30, seed=0):
    """The truth (looks + 1, POINTS), after the transients, and what the sensors measure."""
    rng = np.random.default_rng(seed)
    truth = solve(solve(smooth(rng.normal(size=POINTS)), 200)[-1], looks)
    return truth, truth[:, SENSORS] + NOISE * rng.normal(size=truth[:, SENSORS].shape)


def assimilate(measured, windows=5, iterations=60):
    """The most probable initial state. A long window has many local optima, where a short one has
    none: it grows, and each fit starts from the one before."""
    objective, white = tracker.value_and_grad(tracker.jit(cost)), np.zeros(POINTS)
    options = {"maxiter": iterations}
    ends = np.linspace(1, len(measured), windows + 1, dtype=int)[1:]
    for end in track(ends, "assimilating", console=Console(stderr=True)):
        seen = (measured[:end],)
        white = minimize(objective, white, seen, "L-BFGS-B", jac=True, options=options).x
    return smooth(white)


def draw(truth, found):
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.3), layout="constrained", sharey=True)
    end = DT * EVERY * (len(truth) - 1)
    titles = "truth, and the sensors", "found", "difference"
    for axis, title, u in zip(axes, titles, (truth, found, found - truth), strict=True):
        style = {"aspect": "auto", "origin": "lower", "vmin": -3, "vmax": 3}
        image = axis.imshow(u, "RdBu", extent=(0, LENGTH, 0, end), **style)
        axis.set(xlabel="x", title=title)
    axes[0].vlines(X[SENSORS], 0, end, color="black", lw=0.7, ls=":")
    axes[0].set(ylabel="time")
    figure.colorbar(image, ax=axes, label="u")
    return figure


def main():
    truth, measured = simulate()
    found = solve(assimilate(measured), len(truth) - 1)
    error = np.sqrt(np.mean((found - truth) ** 2, axis=1))
    print(f"noise of the sensors {NOISE}, the state varies by {np.std(truth):.2f}")
    middle, last = error[len(error) // 2], error[-1]
    print(f"found: off by {error[0]:.3f} at first, {middle:.3f} halfway, {last:.3f} at the end")
    draw(truth, found).savefig("spectral_pde.png", dpi=110)
    print("saved spectral_pde.png")


if __name__ == "__main__":
    main()
