"""
GARCH by maximum likelihood
===========================

Teaches maximum likelihood in five lines: ``value_and_grad`` of the log-likelihood goes to
``scipy.optimize.minimize``, ``hessian`` at the maximum gives the standard errors. The model is
GARCH(1, 1) with Student's t: today's variance follows yesterday's return and variance, in a loop
that fills an array. The data are Google's daily prices from 2004 to 2008, which come with
matplotlib.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data
from scipy.optimize import minimize
from scipy.special import expit, gammaln

import tracker

NAMES = "mean (%)", "omega", "alpha", "beta", "nu"


def load():
    """Days, and the logarithmic returns of each against the day before, in percent."""
    prices = get_sample_data("goog.npz")["price_data"]
    return prices["date"][1:], 100.0 * np.diff(np.log(prices["adj_close"]))


def parameters(free):
    """mean, omega, alpha, beta, nu: any five numbers give a stationary model.

    alpha + beta < 1, and more than two degrees of freedom, so that the variance is finite.
    """
    mean, log_variance, persistence, share, log_nu = free
    persistence = expit(persistence)
    alpha = persistence * expit(share)
    omega = np.exp(log_variance) * (1.0 - persistence)
    return np.array([mean, omega, alpha, persistence - alpha, 2.0 + np.exp(log_nu)])


def variances(mean, omega, alpha, beta, returns):
    """The variance that is expected for each day, given the days before."""
    shocks = returns - mean
    variance = np.empty_like(returns)
    variance[0] = np.var(returns)
    for t in range(1, len(returns)):
        variance[t] = omega + alpha * shocks[t - 1] ** 2 + beta * variance[t - 1]
    return variance


def cost(p, returns):
    """The negative log-likelihood of t-distributed returns of these variances."""
    mean, omega, alpha, beta, nu = p
    variance = variances(mean, omega, alpha, beta, returns)
    scale = (nu - 2.0) * variance
    log_density = gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0) - 0.5 * np.log(np.pi * scale)
    return -np.sum(log_density - (nu + 1.0) / 2.0 * np.log1p((returns - mean) ** 2 / scale))


def fit(returns):
    """The parameters of maximum likelihood, their standard errors, and SciPy's result."""
    start = np.array([0.0, np.log(np.var(returns)), 3.0, -2.0, 1.0])
    objective = tracker.jit(lambda free: cost(parameters(free), returns))
    found = minimize(tracker.value_and_grad(objective), start, jac=True)
    best = parameters(found.x)
    information = tracker.hessian(tracker.jit(lambda p: cost(p, returns)), best)
    return best, np.sqrt(np.diag(np.linalg.inv(information))), found


def draw(days, returns, p):
    figure, (top, bottom) = plt.subplots(2, sharex=True, figsize=(10, 5.5), layout="constrained")
    sd = np.sqrt(variances(*p[:4], returns))
    top.plot(days, returns, lw=0.7)
    top.fill_between(days, p[0] - 2 * sd, p[0] + 2 * sd, color="tab:orange", alpha=0.4)
    top.set(ylabel="return (% a day)", title="Google: daily returns, and two standard deviations")
    bottom.plot(days, np.sqrt(252) * sd, color="tab:orange")
    average = np.sqrt(252 * p[1] / (1.0 - p[2] - p[3]))
    bottom.axhline(average, color="black", lw=0.8, ls="--", label="long-run average")
    bottom.set(ylabel="volatility (% a year)", xlabel="day", ylim=0)
    bottom.legend(loc="upper center")
    return figure


def main():
    days, returns = load()
    best, errors, found = fit(returns)
    print(
        f"{len(returns)} days, log-likelihood {-found.fun:.2f}, {found.nfev} values and gradients"
    )
    for name, p, error in zip(NAMES, best, errors, strict=True):
        print(f"  {name:9} {p:8.4f} +- {error:.4f}")
    half_life = np.log(0.5) / np.log(best[2] + best[3])
    print(f"a shock of volatility is half forgotten after {half_life:.0f} days")
    draw(days, returns, best).savefig("garch.png", dpi=110)
    print("saved garch.png")


if __name__ == "__main__":
    main()
