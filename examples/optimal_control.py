"""
Optimal control: swinging up a pendulum on a cart
=================================================

Teaches that constraints have derivatives, too: a loop of Runge-Kutta steps takes 50 forces to the
final state, ``tracker.jacobian`` of it is the ``jac`` of a constraint of SciPy's SLSQP, and
``value_and_grad`` that of the cost. The cart has two seconds to move a metre and to swing its
pendulum from hanging to standing, at rest, with the least effort. Everything is computed.
"""

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.optimize import minimize

import tracker

CART, BOB, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81  # kg, kg, m, m/s^2
SECONDS, STEPS, LIMIT = 2.0, 50, 10.0  # of the whole; the motor gives at most 10 N
DT = SECONDS / STEPS
TARGET = np.array([1.0, np.pi, 0.0, 0.0])  # m, rad, m/s, rad/s; the pendulum hangs at angle 0


def motion(state, force):
    """Derivative of (place, angle, speed, angular speed) in time."""
    _, angle, speed, turning = state
    s, c = np.sin(angle), np.cos(angle)
    swing = BOB * s * (LENGTH * turning**2 + GRAVITY * c)
    acceleration = (force + swing) / (CART + BOB * s**2)
    return np.array([speed, turning, acceleration, -(c * acceleration + GRAVITY * s) / LENGTH])


def trajectory(forces):
    """States at all times, (steps + 1, 4); each force acts for one step of Runge and Kutta."""
    states = np.zeros((len(forces) + 1, 4))
    for i, force in enumerate(forces):
        a = motion(states[i], force)
        b = motion(states[i] + 0.5 * DT * a, force)
        c = motion(states[i] + 0.5 * DT * b, force)
        d = motion(states[i] + DT * c, force)
        states[i + 1] = states[i] + DT / 6.0 * (a + 2.0 * b + 2.0 * c + d)
    return states


def effort(forces):
    """The integral of the force squared, N^2 s."""
    return DT * np.sum(forces**2)


def miss(forces):
    """By how much the final state misses the target."""
    return trajectory(forces)[-1] - TARGET


def swing_up(iterations=400):
    """SciPy's result."""

    def jacobian(forces):
        return tracker.jacobian(miss, forces)[0]

    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("optimising", total=None)
        return minimize(
            tracker.value_and_grad(tracker.jit(effort)),
            np.zeros(STEPS),
            jac=True,
            method="SLSQP",
            bounds=[(-LIMIT, LIMIT)] * STEPS,
            constraints={"type": "eq", "fun": tracker.jit(miss), "jac": tracker.jit(jacobian)},
            options={"maxiter": iterations, "ftol": 1e-5},
            callback=lambda _: progress.advance(bar),
        )


def draw(forces):
    states = trajectory(forces)
    time = DT * np.arange(len(states))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    colours = plt.cm.viridis(np.linspace(0, 1, len(states)))
    for (place, angle, _, _), colour in list(zip(states, colours, strict=True))[::2]:
        bob = place + LENGTH * np.sin(angle), -LENGTH * np.cos(angle)
        left.plot([place, bob[0]], [0, bob[1]], color=colour, lw=1)
        left.plot(*bob, "o", color=colour, ms=6)
        left.plot(place, 0, "s", color=colour, ms=4)
    left.axhline(0.0, color="black", lw=0.8, zorder=0)
    left.set(xlabel="place (m)", ylabel="height (m)", title="from dark to bright", aspect="equal")
    right.stairs(forces, time, color="tab:red", baseline=None)
    right.axhspan(-LIMIT, LIMIT, color="tab:red", alpha=0.07)
    right.set(xlabel="time (s)", title="force within its limits, and angle")
    right.set_ylabel("force (N)", color="tab:red")
    angles = right.twinx()
    angles.plot(time, np.degrees(states[:, 1]), color="tab:blue")
    angles.set_ylabel("angle (degrees)", color="tab:blue")
    return figure


def main():
    found = swing_up()
    print(f"{found.message}: {found.nit} iterations, {found.nfev} values, {found.njev} gradients")
    print(f"effort {found.fun:.2f} N^2 s; at most {abs(found.x).max():.1f} N")
    print("final state misses by", np.array2string(miss(found.x), precision=1))
    draw(found.x).savefig("optimal_control.png", dpi=110)
    print("saved optimal_control.png")


if __name__ == "__main__":
    main()
