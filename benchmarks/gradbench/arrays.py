"""The evals made of array operations: hello, lse, llsq, gmm, kmeans, ode."""

from __future__ import annotations

import math

import numpy as np
from case import Case, floats

from tracker import gradient, jit, jvp

# hello --------------------------------------------------------------------------------------------


@jit
def square(x):
    return x * x


@jit
def double(x):
    return gradient(square, x)[0]


# lse: log-sum-exp ---------------------------------------------------------------------------------


@jit
def logsumexp(x):
    top = np.max(x)
    return np.log(np.sum(np.exp(x - top))) + top


@jit
def lse_gradient(x):
    return gradient(logsumexp, x)[0]


# llsq: least squares of a polynomial --------------------------------------------------------------


@jit(static=("n",))
def llsq(x, n):
    t = -1 + 2 * np.arange(n) / (n - 1)
    rest = np.sign(t) - np.vander(t, x.size, increasing=True) @ x
    return np.dot(rest, rest) / 2


@jit(static=("n",))
def llsq_gradient(x, n):
    return gradient(lambda x: llsq(x, n), x)[0]


# gmm: a mixture of Gaussians with a Wishart prior -------------------------------------------------


def multigammaln(a, d):
    return d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma(a - j / 2) for j in range(d))


def logsumexp_along(x, axis):
    top = np.max(x, axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.sum(np.exp(x - top), axis=axis))


def log_posterior(parameters, d, k, n, x, m, gamma):
    alpha, mu, q, l = (parameters[name] for name in ("alpha", "mu", "q", "l"))  # noqa: E741
    diagonal, sums = np.exp(q), np.sum(q, axis=1)
    columns, rows = np.triu_indices(d, 1)  # a lower triangle, column by column
    lower = np.zeros((k, d, d), like=l)
    lower[:, rows, columns] = l
    centered = x[:, None, :] - mu
    scaled = diagonal * centered + np.einsum("ijk,mik->mij", lower, centered)
    inner = alpha + sums - np.sum(scaled**2, axis=2) / 2
    squares = np.sum(diagonal**2, axis=1) + np.sum(l**2, axis=1)
    freedom = d + m + 1
    prior = np.sum(gamma**2 / 2 * squares - m * sums)
    constant = freedom * d * math.log(gamma / math.sqrt(2)) - multigammaln(freedom / 2, d)
    return (
        -n * d / 2 * math.log(2 * math.pi)
        + np.sum(logsumexp_along(inner, 1))
        - n * logsumexp_along(alpha, 0)
        - prior
        + k * constant
    )


gmm = jit(log_posterior, static=("d", "k", "n", "m", "gamma"))


@jit(static=("d", "k", "n", "m", "gamma"))
def gmm_gradient(parameters, d, k, n, x, m, gamma):
    return gradient(lambda p: log_posterior(p, d, k, n, x, m, gamma), parameters)[0]


def read_gmm(given):
    parameters = {name: floats(given[name]) for name in ("alpha", "mu", "q", "l")}
    fixed = (given[name] for name in ("d", "k", "n"))
    return parameters, *fixed, floats(given["x"]), given["m"], given["gamma"]


# kmeans: a step of Newton's method, with the diagonal of the Hessian ------------------------------


@jit
def kmeans(points, centroids):
    squares = np.sum(centroids**2, axis=1)[:, None]
    return np.sum(points**2) + np.sum(np.min(squares - 2 * centroids @ points.T, axis=0))


@jit
def kmeans_direction(points, centroids):
    slope, curvature = jvp(
        lambda c: gradient(kmeans, points, c)[1], (centroids,), (np.ones_like(centroids),)
    )
    return slope / curvature


def read_kmeans(given):
    return floats(given["points"]), floats(given["centroids"])


# ode: Runge and Kutta's fourth order --------------------------------------------------------------


@jit(static=("steps",))
def ode(x, steps):
    def slope(y):
        return np.concatenate([x[:1], x[1:] * y[:-1]])

    h = 2 / steps
    y = np.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@jit(static=("steps",))
def ode_gradient(x, steps):
    return gradient(lambda x: ode(x, steps)[-1], x)[0]


def lists(parameters):
    return {name: x.tolist() for name, x in parameters.items()}


EVALS = {
    "hello": {
        "square": Case(lambda x: (x,), square, float),
        "double": Case(lambda x: (x,), double, float),
    },
    "lse": {
        "primal": Case(lambda given: (floats(given["x"]),), logsumexp, float),
        "gradient": Case(lambda given: (floats(given["x"]),), lse_gradient),
    },
    "llsq": {
        "primal": Case(lambda given: (floats(given["x"]), given["n"]), llsq, float),
        "gradient": Case(lambda given: (floats(given["x"]), given["n"]), llsq_gradient),
    },
    "gmm": {
        "objective": Case(read_gmm, gmm, float),
        "jacobian": Case(read_gmm, gmm_gradient, lists),
    },
    "kmeans": {
        "cost": Case(read_kmeans, kmeans, float),
        "dir": Case(read_kmeans, kmeans_direction),
    },
    "ode": {
        "primal": Case(lambda given: (floats(given["x"]), given["s"]), ode),
        "gradient": Case(lambda given: (floats(given["x"]), given["s"]), ode_gradient),
    },
}
