"""Small scientific programs in plain NumPy, as people write them: allocate, fill, loop.

The tests run this file twice: as it is, and with the import below changed. `PROGRAMS` names each
function and where it is differentiated.
"""

import math

import numpy as np


def euler(p):
    """Damped oscillator, explicit Euler."""
    n, dt = 20, 0.05
    x = np.zeros(n)
    v = np.zeros(n)
    x[0] = p[0]
    for i in range(n - 1):
        v[i + 1] = v[i] + dt * (-p[1] * x[i] - 0.1 * v[i])
        x[i + 1] = x[i] + dt * v[i + 1]
    return np.sum(x**2)


def runge_kutta(p):
    """Lotka-Volterra, classical fourth order, over np.linspace."""

    def rhs(t, y):
        out = np.empty(2)
        out[0] = p[0] * y[0] - p[1] * y[0] * y[1]
        out[1] = -y[1] + 0.5 * y[0] * y[1] + 0.01 * math.sin(t)
        return out

    ts = np.linspace(0.0, 1.0, 6)
    ys = np.zeros((len(ts), 2))
    ys[0] = [1.0, p[2]]
    for k in range(len(ts) - 1):
        t, y = ts[k], ys[k]
        h = ts[k + 1] - t
        k1 = rhs(t, y)
        k2 = rhs(t + h / 2, y + h / 2 * k1)
        k3 = rhs(t + h / 2, y + h / 2 * k2)
        k4 = rhs(t + h, y + h * k3)
        ys[k + 1] = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.mean(ys[-1] ** 2)


def heat(p):
    """Explicit heat equation, boundary values by assignment, in place."""
    u = np.zeros(12)
    u[0], u[-1] = p[0], p[1]
    for _ in range(5):
        new = u.copy()
        new[1:-1] = u[1:-1] + p[2] * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = new
    return u @ np.arange(12.0)


def laplace(p):
    """Gauss-Seidel on a grid, element by element."""
    u = np.zeros((5, 5))
    u[0, :] = p[0]
    u[:, -1] = np.linspace(0.0, 1.0, 5) * p[1]
    for _ in range(3):
        for i in range(1, 4):
            for j in range(1, 4):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return np.sum(u)


def wave(p):
    """Leapfrog in time with three levels that rotate."""
    x = np.arange(0.0, 1.0, 0.1)
    old = np.exp(-p[0] * (x - 0.5) ** 2)
    now = old.copy()
    for _ in range(6):
        new = np.zeros_like(now)
        new[1:-1] = 2 * now[1:-1] - old[1:-1] + p[1] ** 2 * (now[2:] - 2 * now[1:-1] + now[:-2])
        old, now = now, new
    return np.sqrt(np.mean(now**2))


def stiffness(p):
    """Assembly of a stiffness matrix from element matrices, then a solve."""
    n = 5
    k = np.zeros((n + 1, n + 1))
    for e in range(n):
        ke = p[e] * np.array([[1.0, -1.0], [-1.0, 1.0]])
        nodes = [e, e + 1]
        for a in range(2):
            for b in range(2):
                k[nodes[a], nodes[b]] += ke[a, b]
    f = np.zeros(n + 1)
    f[-1] = 1.0
    return np.linalg.solve(k[1:, 1:], f[1:])[-1]


def assembly_by_index(p):
    """The same with np.ix_."""
    k = np.zeros((6, 6))
    ke = np.array([[2.0, -1.0], [-1.0, 2.0]])
    for e in range(5):
        k[np.ix_([e, e + 1], [e, e + 1])] += p[e] * ke
    return np.linalg.det(k)


def rotation(p):
    """A matrix of sines and cosines in nested lists."""
    c, s = np.cos(p[0]), np.sin(p[0])
    r = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    v = np.array([p[1], p[2], 1.0])
    return (r @ r @ v)[0] * (r @ v)[1]


def kinematics(p):
    """Forward kinematics: products of 4x4 transformations."""
    t = np.eye(4)
    for i, length in enumerate((1.0, 0.7, 0.3)):
        c, s = np.cos(p[i]), np.sin(p[i])
        step = np.identity(4)
        step[:2, :2] = [[c, -s], [s, c]]
        step[0, 3] = length
        t = t @ step
    return np.linalg.norm(t[:3, 3] - np.array([0.5, 0.5, 0.0]))


def viterbi(p):
    """A table of dynamic programming, with max."""
    score = np.full((4, 3), -np.inf)
    score[0] = p
    move = np.array([[0.1, -0.5, 0.3], [0.2, 0.4, -0.1], [0.0, 0.3, 0.2]])
    for t in range(1, 4):
        for j in range(3):
            score[t, j] = np.max(score[t - 1] + move[:, j]) + p[j] * 0.1 * t
    return np.max(score[-1])


def time_warp(p):
    """Dynamic time warping, with min over neighbours."""
    a = np.sin(p)
    b = np.array([0.1, 0.9, 0.4])
    d = np.full((len(a) + 1, len(b) + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = (a[i - 1] - b[j - 1]) ** 2
            d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[-1, -1]


def forward_algorithm(p):
    """A hidden Markov model, probabilities normalised as it goes."""
    q = 1.0 / (1.0 + np.exp(-p[0]))
    trans = np.array([[q, 1 - q], [0.3, 0.7]])
    emit = np.stack([np.array([p[1], 1.0]), np.array([0.5, p[2]])])
    alpha = np.ones(2) / 2
    loglik = 0.0
    for obs in [0, 1, 1, 0]:
        alpha = (alpha @ trans) * emit[:, obs]
        total = alpha.sum()
        loglik += np.log(total)
        alpha /= total
    return loglik


def autoregression(p):
    """A filter, element by element, into a preallocated array."""
    noise = np.array([0.3, -0.2, 0.5, 0.1, -0.4, 0.2])
    y = np.empty(len(noise))
    y[0] = noise[0]
    y[1] = noise[1] + p[0] * y[0]
    for t in range(2, len(noise)):
        y[t] = p[0] * y[t - 1] + p[1] * y[t - 2] + noise[t]
    return np.var(y)


def kalman(p):
    """A scalar Kalman filter that keeps its history in arrays."""
    z = [0.9, 1.1, 0.8, 1.3]
    xs = np.zeros(len(z) + 1)
    ps = np.zeros(len(z) + 1)
    ps[0] = 1.0
    for k, seen in enumerate(z):
        prior = ps[k] + p[0] ** 2
        gain = prior / (prior + p[1] ** 2)
        xs[k + 1] = xs[k] + gain * (seen - xs[k])
        ps[k + 1] = (1 - gain) * prior
    return np.sum(xs**2) + ps[-1]


def bodies(p):
    """Gravity between bodies, pair by pair."""
    x = p.reshape(3, 2)
    m = np.array([1.0, 2.0, 0.5])
    force = np.zeros((3, 2))
    for i in range(3):
        for j in range(i + 1, 3):
            d = x[j] - x[i]
            f = m[i] * m[j] * d / (np.dot(d, d) + 0.1) ** 1.5
            force[i] += f
            force[j] -= f
    return np.sum(force**2)


def distances(p):
    """A kernel matrix, filled by symmetry; then a log-determinant."""
    n = 4
    k = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            k[i, j] = np.exp(-0.5 * (p[i] - p[j]) ** 2)
            k[j, i] = k[i, j]
    k[np.diag_indices(n)] += 0.5
    return np.linalg.slogdet(k)[1]


def horner(p):
    """A polynomial by Horner, and by a matrix of powers."""
    x = np.linspace(-1, 1, 5)
    y = np.zeros(5)
    for c in p:
        y = y * x + c
    return np.sum((y - x[:, None] ** np.arange(len(p))[::-1] @ p + 0.1 * y) ** 2)


def spline(p):
    """A tridiagonal system by the Thomas algorithm, in place."""
    n = len(p)
    a, b, c = np.ones(n), 4.0 * np.ones(n), np.ones(n)
    d = np.array(p)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] = b[i] - w * c[i - 1]
        d[i] = d[i] - w * d[i - 1]
    out = np.zeros(n)
    out[-1] = d[-1] / b[-1]
    for i in range(n - 2, -1, -1):
        out[i] = (d[i] - c[i] * out[i + 1]) / b[i]
    return np.sum(out**3)


def cholesky(p):
    """The textbook Cholesky, written out."""
    a = np.outer(p, p) + 2.0 * np.eye(len(p))
    n = len(p)
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - np.sum(low[i, :j] * low[j, :j])
            low[i, j] = np.sqrt(s) if i == j else s / low[j, j]
    return np.sum(np.log(np.diag(low)))


def newton(p):
    """Newton's method until it has converged: a loop whose length depends on values."""
    x = np.float64(1.0)
    while abs(x * x - p[0]) > 1e-12:
        x = x - (x * x - p[0]) / (2 * x)
    return x * p[1]


def columns(p):
    """np.r_, np.c_ and column_stack build a design matrix."""
    t = np.arange(6) / 5.0
    design = np.c_[np.ones(6), t, t**2]
    path = np.r_[0.0, p, p[0] * p[1], 1:3]
    target = np.column_stack([t, path[:6]])
    return np.sum((design.T @ target) ** 2)


def masks(p):
    """Boolean masks choose where to write."""
    x = np.concatenate([p, -p])
    y = np.zeros(x.shape)
    positive = x > 0
    y[positive] = np.log1p(x[positive])
    y[~positive] = 0.1 * x[~positive]
    return y.sum()


def vectorized(p):
    """np.vectorize and np.fromfunction over a scalar function."""
    f = np.vectorize(lambda u: u * p[0] if u > 1 else p[1])
    grid = np.fromfunction(lambda i, j: p[0] * i + p[1] * j, (3, 2))
    return np.sum(f(np.array([0.5, 1.5, 2.5]))) + np.prod(1.0 + grid)


def running(p):
    """Lists of scalars become arrays at the end."""
    totals = []
    total = 0.0
    for x in p:
        total = 0.9 * total + x
        totals.append(total)
    history = np.asarray(totals)
    return np.max(history) + np.mean(np.diff(history) ** 2) + np.sum([total, p[0]])


def complex_signal(p):
    """Complex arrays, filled, and their power."""
    z = np.zeros(4, dtype=complex)
    for k in range(4):
        z[k] = p[0] * np.exp(1j * k * p[1])
    k = np.arange(4)
    waves = np.exp(-2j * np.pi * np.outer(k, k) / 4) @ z
    return np.sum(np.abs(waves) ** 2 * k)


def quadrature(p):
    """Trapezoids by hand on np.linspace."""
    x, h = np.linspace(0.0, p[1], 9, retstep=True)
    y = np.exp(-p[0] * x)
    return h * (0.5 * y[0] + y[1:-1].sum() + 0.5 * y[-1])


def along_axis(p):
    """A function of rows, of an array that is not differentiated."""
    table = np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 0.5]])
    scores = np.apply_along_axis(lambda row: np.dot(row, p), 1, table)
    total = np.zeros(())
    for place, x in np.ndenumerate(table):
        total = total + x * p[place[1]]
    return np.sum(scores**2) * total


_V3 = [0.7, 1.3, 0.4]
_V5 = [1.0, 1.5, 0.8, 1.2, 0.6]
PROGRAMS = {
    euler: [1.0, 2.0],
    runge_kutta: [1.1, 0.4, 0.6],
    heat: [1.0, 2.0, 0.2],
    laplace: [1.0, 0.5],
    wave: [20.0, 0.4],
    stiffness: _V5,
    assembly_by_index: _V5,
    rotation: _V3,
    kinematics: _V3,
    viterbi: _V3,
    time_warp: [0.1, 0.5, 1.1, 0.3],
    forward_algorithm: _V3,
    autoregression: [0.5, -0.2],
    kalman: [0.3, 0.6],
    bodies: [0.0, 0.1, 1.0, 0.3, -0.5, 0.8],
    distances: [0.1, 0.9, -0.4, 1.7],
    horner: [0.5, -1.0, 2.0],
    spline: _V5,
    cholesky: _V3,
    newton: [2.0, 1.5],
    columns: _V3,
    masks: [0.5, -1.2, 2.0],
    vectorized: [0.4, 0.9],
    running: _V5,
    complex_signal: [1.3, 0.4],
    quadrature: [0.8, 2.0],
    along_axis: _V3,
}
