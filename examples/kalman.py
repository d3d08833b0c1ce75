"""
Fitting a Kalman filter
=======================

Teaches that a loop over time with matrices compiles as it stands: the likelihood of a Kalman
filter, ``@`` and ``np.linalg.solve`` in a Python loop over 400 measurements, becomes one native
loop, forwards and backwards, and its hessian gives standard errors. The data are computed: a
vehicle that is pushed about at random, whose position a receiver measures once a second.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import tracker

DT, STEPS = 1.0, 400  # s
TRUTH = np.log([0.3, 5.0])  # acceleration's noise (m/s^1.5), the receiver's (m); fitted as logs
H = np.eye(2, 4)  # the state is (x, y, vx, vy) in m and m/s; measured are x and y
F = np.eye(4) + DT * np.eye(4, k=2)  # constant velocity


def noise(parameters):
    """Covariances of a step, of an acceleration that is white noise, and of a measurement."""
    q, r = np.exp(2.0 * parameters)
    step = np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]])
    return q * np.kron(step, np.eye(2)), r * np.eye(2)


def simulate(seed=0, steps=STEPS):
    """The true states (steps, 4), and measured positions (steps, 2)."""
    rng = np.random.default_rng(seed)
    Q, R = noise(TRUTH)
    states = np.zeros((steps, 4))
    for t in range(1, steps):
        states[t] = F @ states[t - 1] + rng.multivariate_normal(np.zeros(4), Q)
    return states, states @ H.T + rng.multivariate_normal(np.zeros(2), R, size=steps)


def kalman(parameters, measured):
    """Filtered states (steps, 4), their covariances (steps, 4, 4), and the negative log-likelihood
    of the measurements, each given all before it."""
    Q, R = noise(parameters)
    m, P = np.zeros(4), np.diag([100.0**2, 100.0**2, 10.0**2, 10.0**2])  # before the first
    means, covariances = np.empty((len(measured), 4)), np.empty((len(measured), 4, 4))
    cost = 0.0
    for t in range(len(measured)):
        S = H @ P @ H.T + R
        v = measured[t] - H @ m
        cost += 0.5 * (v @ np.linalg.solve(S, v) + np.linalg.slogdet(2.0 * np.pi * S)[1])
        K = np.linalg.solve(S, H @ P).T
        means[t], covariances[t] = m + K @ v, P - K @ S @ K.T
        m, P = F @ means[t], F @ covariances[t] @ F.T + Q
    return means, covariances, cost


# %%
# The fit: parameters that make the measurements most likely, by SciPy, and the standard errors from
# the curvature of the likelihood there.


def fit(measured):
    """Parameters of maximum likelihood and their standard errors, both of logarithms."""

    def cost(parameters):
        return kalman(parameters, measured)[2]

    found = minimize(tracker.value_and_grad(tracker.jit(cost)), np.zeros(2), jac=True)
    hessian = tracker.hessian(cost, found.x)  # called once: not worth compiling
    return found.x, np.sqrt(np.diag(np.linalg.inv(hessian)))


def draw(states, measured, means, covariances):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    left.plot(*measured[:120].T, ".", ms=4, color="tab:gray", label="measured")
    left.plot(*states[:120, :2].T, color="black", label="truth")
    left.plot(*means[5:120, :2].T, color="tab:red", label="filtered")
    left.set(xlabel="east (m)", ylabel="north (m)", title="the way, first two minutes")
    left.legend()
    seconds, sd = DT * np.arange(len(means)), np.sqrt(covariances[:, 2, 2])
    right.fill_between(
        seconds, means[:, 2] - 2 * sd, means[:, 2] + 2 * sd, color="tab:red", alpha=0.25
    )
    right.plot(seconds, states[:, 2], color="black", lw=1)
    right.plot(seconds, means[:, 2], color="tab:red", lw=1)
    right.set(xlabel="time (s)", ylabel="speed eastwards (m/s)", title="never measured: the speed")
    right.set(ylim=(-8, 8))
    return figure


def main():
    states, measured = simulate()
    found, errors = fit(measured)
    print("noise of          truth    found (times or divided by, 1 standard error)")
    for name, truth, p, e in zip(
        ["acceleration", "receiver"], np.exp(TRUTH), np.exp(found), np.exp(errors), strict=True
    ):
        print(f"  {name:14} {truth:6.2f}   {p:6.2f}  x/ {e:.2f}")
    means, covariances, _ = kalman(found, measured)
    for what, at in {"measured": measured, "filtered": means[:, :2]}.items():
        error = np.sqrt(np.mean(np.sum((at - states[:, :2]) ** 2, axis=1)))
        print(f"{what} positions are off by {error:.1f} m (root of mean square)")
    draw(states, measured, means, covariances).savefig("kalman.png", dpi=110)
    print("saved kalman.png")


if __name__ == "__main__":
    main()
