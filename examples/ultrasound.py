"""
Seeing by sound: a NumPy program that runs in JAX
=================================================

Teaches ``tracker.to_jax``: pulses of sound cross a body, and a ring of sensors records them. The
simulation and the loss are NumPy, with a Python loop over time; JAX gets the recorded program, with
tracker's derivative, and runs it in float32 on a GPU, if there is one. SciPy's optimiser finds the
speed of sound everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.optimize import minimize

import tracker

SIDE, STEPS, PULSES, SENSORS = 64, 170, 8, 64
Y, X = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
TURNS = 2 * np.pi * np.arange(SENSORS) / SENSORS
RING = tuple(np.rint(0.42 * SIDE * f(TURNS) + (SIDE - 1) / 2).astype(int) for f in (np.sin, np.cos))
IS_INSIDE = np.hypot(X, Y) < 0.39 * SIDE
DECAY = 1 - 0.2 * np.clip(16 * np.maximum(abs(X), abs(Y)) / SIDE - 7, 0, 1)  # near the walls
PULSE = -np.diff(np.exp(-(((np.arange(STEPS + 1) - 22) / 8.0) ** 2)))  # in time


def body():
    """The speed of sound, (SIDE, SIDE): 1 in water."""
    speed = np.ones((SIDE, SIDE))
    for y, x, radius, change in (0, 0, 20, 3), (-6, -7, 6, 8), (7, 6, 5, -8), (5, -9, 3, 10):
        speed += 0.01 * change / (1 + np.exp(2 * (np.hypot(Y - y, X - x) - radius)))
    return speed


def sound(speed, steps=None):
    """What the sensors record, (STEPS, PULSES, SENSORS), and the pressure at the end, by the wave
    equation. Pulse number k starts at every eighth sensor."""
    starts = [places[:: SENSORS // PULSES] for places in RING]
    before = now = np.zeros((PULSES, SIDE, SIDE))
    pulse, records = np.zeros_like(now), []
    pulse[np.arange(PULSES), *starts] = 1.0
    for t in range(steps or STEPS):
        around = sum(np.roll(now, shift, axis) for shift in (1, -1) for axis in (1, 2))
        force = (0.5 * speed) ** 2 * (around - 4 * now) + PULSE[t] * pulse
        before, now = now * DECAY, (2 * now - before + force) * DECAY
        records.append(now[:, *RING])
    return np.stack(records), now


def loss(change, measured):
    """For a change of the speed inside of the ring, against what the sensors have measured."""
    return np.sum((sound(1.0 + change * IS_INSIDE)[0] - measured) ** 2)


def by_jax(measured):
    """The loss and its gradient as a function of the change, run by JAX."""
    import jax

    example = np.zeros((SIDE, SIDE))
    program = tracker.to_jax(loss, example, measured, dtype=np.float32)
    run, records = jax.jit(jax.value_and_grad(program)), measured.astype(np.float32)
    print(f"JAX runs the program on {jax.devices()[0]}")
    return lambda change: run(change.astype(np.float32), records)


def find(slope, iterations=40):
    """The speed of sound where loss and gradient are `slope`, and the loss at each iteration."""
    losses = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("listening", total=iterations)

        def look(intermediate_result):
            losses.append(intermediate_result.fun)
            progress.advance(task)

        def for_scipy(x):
            value, gradient = slope(x.reshape(SIDE, SIDE))
            return float(value), np.asarray(gradient, dtype=float).ravel()

        how = {"method": "L-BFGS-B", "options": {"maxiter": iterations}}
        found = minimize(for_scipy, np.zeros(SIDE**2), jac=True, callback=look, **how)
    return 1.0 + found.x.reshape(SIDE, SIDE) * IS_INSIDE, losses


def draw(true, found, losses):
    figure, axes = plt.subplots(1, 4, figsize=(16, 3.8), layout="constrained")
    pressure = sound(true, 95)[1][0]
    axes[0].imshow(pressure, "RdBu", vmin=-0.02, vmax=0.02, origin="lower")
    axes[0].set(title="sound of one pulse, and the sensors")
    for axis, speed, title in zip(axes[1:], (true, found), ("the body", "found"), strict=False):
        image = axis.imshow(speed, "viridis", vmin=0.95, vmax=1.13, origin="lower")
        axis.set(title=f"speed of sound: {title}")
    for axis in axes[:3]:
        axis.plot(*RING[::-1], "k.", markersize=2)
    figure.colorbar(image, ax=axes[2])
    axes[3].semilogy(losses)
    axes[3].set(title="loss", xlabel="iteration")
    return figure


def main():
    try:
        import jax  # noqa: F401
    except ImportError:
        raise SystemExit("this example needs JAX: pip install 'tracker-grad[jax]'") from None
    true = body()
    measured = sound(true)[0]
    found, losses = find(by_jax(measured))
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.6f} at last")
    print(f"speed off by {np.std((found - true)[IS_INSIDE]):.4f}, of {np.std(true[IS_INSIDE]):.4f}")
    draw(true, found, losses).savefig("ultrasound.png", dpi=110)
    print("saved ultrasound.png")


if __name__ == "__main__":
    main()
