"""Programs from the fields of our users: value and gradient, compiled, against jax where installed.

Run: python benchmarks/fields.py [name ...]

Each program is written once, over a `Library`: which NumPy it imports, how it loops over steps,
adds to a part of an array, and takes a gradient inside. Ours is plain Python; jax's is what its
users write (`lax.scan`, `.at`). A program gives its function of floating arguments, and these.

Times are the processor's, one thread each, so that a busy machine does not show. The first call is
that of a process that has compiled something before, machine code included; the others are minima.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TRACKER_THREADS", "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import numpy
from libraries import LIBRARIES, Library, is_installed
from timing import best, settle

Program = tuple[Callable[..., Any], tuple[Any, ...]]


# filters and chains -------------------------------------------------------------------------------


def kalman(d: Library, rng: Any) -> Program:
    """The log likelihood of 1000 positions in a plane, in the logarithms of two variances."""
    np, dt = d.np, 0.1
    move, see = numpy.eye(4), numpy.eye(2, 4)
    move[0, 2] = move[1, 3] = dt

    def loss(logs, seen):
        noise = np.exp(logs[0]) * numpy.diag([dt**3, dt**3, dt, dt])
        error = np.exp(logs[1]) * numpy.eye(2)

        def step(state, z):
            x, p = state
            x, p = move @ x, move @ p @ move.T + noise
            s = see @ p @ see.T + error
            rest = z - see @ x
            gain = np.linalg.solve(s, see @ p).T
            cost = np.log(np.linalg.det(s)) + rest @ np.linalg.solve(s, rest)
            return (x + gain @ rest, p - gain @ see @ p), cost

        return np.sum(d.scan(step, (numpy.zeros(4), numpy.eye(4)), (seen,))[1])

    return loss, (numpy.array([0.1, -1.0]), numpy.cumsum(rng.standard_normal((1000, 2)), axis=0))


def hidden_markov(d: Library, rng: Any) -> Program:
    """The forward algorithm in logarithms: 500 steps, 8 states."""
    np = d.np

    def logsumexp(x, axis):
        top = np.max(x, axis=axis, keepdims=True)
        return np.squeeze(top, axis) + np.log(np.sum(np.exp(x - top), axis=axis))

    def loss(start, moves, emissions):
        moves = moves - logsumexp(moves, 1)[:, None]

        def step(state, row):
            return logsumexp(state[:, None] + moves, 0) + row, None

        return logsumexp(d.scan(step, start, (emissions,))[0], 0)

    normal = rng.standard_normal
    return loss, (normal(8), normal((8, 8)), normal((500, 8)))


def alignment(d: Library, rng: Any) -> Program:
    """The cheapest alignment of two sequences of 30 (dynamic time warping), cell by cell."""
    np = d.np

    def loss(a, b):
        far = 1e9

        def row(above, x):
            def cell(left, up, corner, y):
                here = (x - y) ** 2 + np.minimum(left, np.minimum(up, corner))
                return here, here

            cells = d.scan(cell, far + 0.0 * x, (above[1:], above[:-1], b))[1]
            return np.concatenate([far + 0.0 * cells[:1], cells]), None

        top = np.concatenate([0.0 * b[:1], far + 0.0 * b])
        return d.scan(row, top, (a,))[0][-1]

    return loss, (rng.standard_normal(30), rng.standard_normal(30))


# differential equations ---------------------------------------------------------------------------


def lotka_volterra(d: Library, rng: Any) -> Program:
    """Four rates and two starting values fitted to 1000 steps of Runge and Kutta."""
    np = d.np

    def slope(y, a):
        x, z = y[0], y[1]
        return np.stack([a[0] * x - a[1] * x * z, a[2] * x * z - a[3] * z])

    def loss(a, y0, seen):
        h = 0.01

        def step(y, z):
            k1 = slope(y, a)
            k2 = slope(y + h / 2 * k1, a)
            k3 = slope(y + h / 2 * k2, a)
            k4 = slope(y + h * k3, a)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, np.sum((y - z) ** 2)

        return np.sum(d.scan(step, y0, (seen,))[1])

    return loss, (numpy.array([1.0, 0.4, 0.2, 0.8]), numpy.ones(2), rng.random((1000, 2)))


def implicit_euler(d: Library, rng: Any) -> Program:
    """Van der Pol's oscillator: 200 implicit steps, five of Newton's in each."""
    np = d.np

    def loss(mu, y0, steps):
        def newton(old, h):
            y = old
            for _ in range(5):
                rest = y - old - h * np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])
                jac = np.stack(
                    [
                        np.stack([1.0 + 0.0 * h, -h]),
                        np.stack([h * (2 * mu * y[0] * y[1] + 1), 1 - h * mu * (1 - y[0] ** 2)]),
                    ]
                )
                y = y - np.linalg.solve(jac, rest)
            return y, np.sum(y**2)

        return np.sum(d.scan(newton, y0, (steps,))[1])

    return loss, (numpy.array(2.0), numpy.array([1.0, 0.5]), numpy.full(200, 0.02))


def bodies(d: Library, rng: Any) -> Program:
    """32 bodies that attract each other, softened: 50 leapfrog steps of all pairs."""
    np, dt = d.np, 0.01

    def pull(q, masses):
        apart = q[None, :, :] - q[:, None, :]
        cube = (np.sum(apart**2, axis=2) + 0.01) ** -1.5
        return np.sum(apart * (cube * masses)[:, :, None], axis=1)

    def loss(q, v, masses):
        def step(state, _):
            q, v, a = state
            v = v + dt / 2 * a
            q = q + dt * v
            a = pull(q, masses)
            return (q, v + dt / 2 * a, a), None

        q, v, _ = d.scan(step, (q, v, pull(q, masses)), (numpy.zeros(50),))[0]
        return np.sum(q**2) + np.sum(masses[:, None] * v**2)

    return loss, (rng.standard_normal((32, 3)), rng.standard_normal((32, 3)), rng.random(32))


def heat_slices(d: Library, rng: Any) -> Program:
    """100 steps of the heat equation on 100 x 100 cells, written with slices."""
    np, inside = d.np, (slice(1, -1), slice(1, -1))

    def loss(u, rate, wanted):
        def step(u, _):
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            return d.add(u, inside, rate * (around - 4 * u[1:-1, 1:-1])), None

        return np.sum((d.scan(step, u, (numpy.zeros(100),))[0] - wanted) ** 2)

    return loss, (rng.random((100, 100)), numpy.array(0.2), rng.random((100, 100)))


def heat_roll(d: Library, rng: Any) -> Program:
    """The same on a torus, with np.roll."""
    np = d.np

    def loss(u, rate, wanted):
        def step(u, _):
            around = sum(np.roll(u, by, axis) for by in (1, -1) for axis in (0, 1))
            return u + rate * (around - 4 * u), None

        return np.sum((d.scan(step, u, (numpy.zeros(100),))[0] - wanted) ** 2)

    return loss, (rng.random((100, 100)), numpy.array(0.2), rng.random((100, 100)))


def euler(d: Library, rng: Any) -> Program:
    """Euler's equations of a gas in a tube: 200 cells, 200 steps, Rusanov's flux."""
    np, gamma, ratio = d.np, 1.4, 0.1

    def loss(u, wanted):
        def step(u, _):
            rho, v = u[0], u[1] / u[0]
            p = (gamma - 1) * (u[2] - 0.5 * rho * v**2)
            flux = np.stack([u[1], u[1] * v + p, (u[2] + p) * v])
            speed = np.abs(v) + np.sqrt(gamma * p / rho)
            fastest = np.maximum(speed[:-1], speed[1:])
            across = 0.5 * (flux[:, :-1] + flux[:, 1:]) - 0.5 * fastest * (u[:, 1:] - u[:, :-1])
            return d.add(
                u, (slice(None), slice(1, -1)), -ratio * (across[:, 1:] - across[:, :-1])
            ), None

        return np.sum((d.scan(step, u, (numpy.zeros(200),))[0] - wanted) ** 2)

    start = numpy.ones((3, 200)) * numpy.array([1.0, 0.1, 2.5])[:, None]
    start[:, 100:] *= 0.5
    return loss, (start, rng.random((3, 200)))


# chance -------------------------------------------------------------------------------------------


def process(n: int) -> Callable[[Library, Any], Program]:
    def gaussian_process(d: Library, rng: Any) -> Program:
        """The marginal likelihood of a Gaussian process, by Cholesky."""
        np = d.np

        def loss(logs, x, y):
            scale, length, noise = np.exp(logs[0]), np.exp(logs[1]), np.exp(logs[2])
            apart = (x[:, None, :] - x[None, :, :]) / length
            k = scale * np.exp(-0.5 * np.sum(apart**2, axis=2)) + noise * numpy.eye(n)
            half = np.linalg.cholesky(k)
            rest = np.linalg.solve(half, y)
            return 0.5 * np.sum(rest**2) + np.sum(np.log(np.diagonal(half)))

        return loss, (numpy.zeros(3), rng.random((n, 3)), rng.standard_normal(n))

    return gaussian_process


def regression(d: Library, rng: Any) -> Program:
    """The evidence of a Bayesian linear model, 500 x 20, in its two precisions and the data."""
    np = d.np

    def loss(logs, a, y):
        alpha, beta = np.exp(logs[0]), np.exp(logs[1])
        precision = alpha * numpy.eye(20) + beta * a.T @ a
        half = np.linalg.cholesky(precision)
        mean = beta * np.linalg.solve(half.T, np.linalg.solve(half, a.T @ y))
        misfit = beta / 2 * np.sum((y - a @ mean) ** 2) + alpha / 2 * np.sum(mean**2)
        return misfit + np.sum(np.log(np.diagonal(half))) - 10 * logs[0] - 250 * logs[1]

    return loss, (numpy.zeros(2), rng.standard_normal((500, 20)), rng.standard_normal(500))


def hamiltonian(d: Library, rng: Any) -> Program:
    """The energy after 20 leapfrog steps in the posterior of a logistic model, 1000 x 20."""
    np = d.np
    a, y = rng.standard_normal((1000, 20)), rng.integers(0, 2, 1000).astype(float)

    def energy(q):
        z = a @ q
        return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * np.sum(q**2)

    slope = d.value_and_grad(energy, (0,))

    def loss(q, p, steps):
        def step(state, h):
            q, p = state
            p = p - h / 2 * slope(q)[1][0]
            q = q + h * p
            return (q, p - h / 2 * slope(q)[1][0]), None

        q, p = d.scan(step, (q, p), (steps,))[0]
        return energy(q) + 0.5 * np.sum(p**2)

    return loss, (0.1 * rng.standard_normal(20), rng.standard_normal(20), numpy.full(20, 0.01))


def heston(d: Library, rng: Any) -> Program:
    """A call under Heston's model: 5000 paths of 100 steps, in all six parameters."""
    np, dt = d.np, 0.01

    def loss(a, draws):
        s0, v0, kappa, theta, xi, rho = (a[i] for i in range(6))

        def step(state, z):
            s, v = state
            up = np.maximum(v, 0.0)
            root = np.sqrt(up * dt + 1e-12)
            other = rho * z[0] + np.sqrt(1 - rho**2) * z[1]
            return (
                s * np.exp(-0.5 * up * dt + root * z[0]),
                v + kappa * (theta - up) * dt + xi * root * other,
            ), None

        zero = numpy.zeros(5000)
        s, _ = d.scan(step, (s0 + zero, v0 + zero), (draws,))[0]
        return np.mean(np.maximum(s - 1.0, 0.0))

    return loss, (
        numpy.array([1.0, 0.04, 1.5, 0.04, 0.3, -0.6]),
        rng.standard_normal((100, 2, 5000)),
    )


def mixture(d: Library, rng: Any) -> Program:
    """The likelihood of a mixture of ten Gaussians in four dimensions, 2000 points."""
    np = d.np

    def loss(weights, means, logs, x):
        z = (x[:, None, :] - means) * np.exp(-logs)
        each = weights - 0.5 * np.sum(z**2, axis=2) - np.sum(logs, axis=1)
        top = np.max(each, axis=1, keepdims=True)
        found = np.squeeze(top, 1) + np.log(np.sum(np.exp(each - top), axis=1))
        return -np.mean(found) + np.log(np.sum(np.exp(weights)))

    normal = rng.standard_normal
    return loss, (normal(10), normal((10, 4)), 0.1 * normal((10, 4)), normal((2000, 4)))


# pictures, curves, networks -----------------------------------------------------------------------


def rays(d: Library, rng: Any) -> Program:
    """Five lit spheres seen through 64 x 64 pixels; what a ray misses is masked."""
    np = d.np
    side = numpy.linspace(-1, 1, 64)
    across, up = numpy.meshgrid(side, side)
    ray = numpy.stack([across, up, numpy.ones_like(up)], axis=-1).reshape(-1, 3)
    ray /= numpy.sqrt(numpy.sum(ray**2, axis=1, keepdims=True))

    def loss(centres, radii, light, picture):
        nearest, shade = numpy.full(len(ray), 1e9), numpy.zeros(len(ray))
        for i in range(5):
            along = ray @ centres[i]
            inside = along**2 - np.sum(centres[i] ** 2) + radii[i] ** 2
            hit = inside > 0
            t = along - np.sqrt(np.where(hit, inside, 1.0))
            seen = hit & (t > 0) & (t < nearest)
            normal = (t[:, None] * ray - centres[i]) / radii[i]
            bright = np.maximum(normal @ light, 0.0)
            shade = np.where(seen, bright, shade)
            nearest = np.where(seen, t, nearest)
        return np.sum((shade - picture) ** 2)

    centres = rng.uniform(-1, 1, (5, 3)) + numpy.array([0, 0, 3.0])
    light = numpy.array([0.5, -0.5, -0.7])
    return loss, (centres, rng.uniform(0.3, 0.6, 5), light, rng.random(len(ray)))


def spline(d: Library, rng: Any) -> Program:
    """A natural cubic spline through 30 values, fitted to 1000 points."""
    np, n = d.np, 30
    knots = numpy.linspace(0, 1, n)
    x = rng.uniform(0, 1, 1000)
    at = numpy.clip(numpy.searchsorted(knots, x) - 1, 0, n - 2)
    h = knots[1] - knots[0]
    system = 4 * numpy.eye(n) + numpy.eye(n, k=1) + numpy.eye(n, k=-1)
    system[0], system[-1] = numpy.eye(n)[0], numpy.eye(n)[-1]

    def loss(y, seen):
        ends = numpy.zeros(1)
        bends = 6 / h**2 * (y[2:] - 2 * y[1:-1] + y[:-2])
        m = np.linalg.solve(system, np.concatenate([ends, bends, ends]))
        left, right = (knots[at + 1] - x) / h, (x - knots[at]) / h
        curve = left * y[at] + right * y[at + 1]
        curve = curve + h**2 / 6 * ((left**3 - left) * m[at] + (right**3 - right) * m[at + 1])
        return np.sum((curve - seen) ** 2)

    return loss, (rng.random(n), rng.random(1000))


def convolutions(d: Library, rng: Any) -> Program:
    """Two layers of 3 x 3 windows, pooled, and one dense: 16 pictures of 16 x 16."""
    np = d.np

    def layer(x, w):
        n = x.shape[2] - 2
        windows = [x[:, :, i : i + n, j : j + n] for i in range(3) for j in range(3)]
        y = np.einsum("ocw,wbcij->boij", w, np.stack(windows))
        y = np.maximum(y, 0.0)
        y = y.reshape(y.shape[0], y.shape[1], n // 2, 2, n // 2, 2)
        return np.max(np.max(y, axis=5), axis=3)

    def loss(w1, w2, w3, x):
        y = layer(layer(x, w1), w2).reshape(16, -1) @ w3
        top = np.max(y, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(y - top), axis=1)) - (y - top)[:, 0])

    normal = rng.standard_normal
    return loss, (
        0.3 * normal((8, 1, 9)),
        0.3 * normal((8, 8, 9)),
        0.3 * normal((72, 10)),
        normal((16, 1, 18, 18)),
    )


def attention(d: Library, rng: Any) -> Program:
    """A block of attention: 64 places, four heads of 16, and a layer of 256."""
    np = d.np

    def normed(x):
        middle = x - np.mean(x, axis=-1, keepdims=True)
        return middle / np.sqrt(np.mean(middle**2, axis=-1, keepdims=True) + 1e-5)

    def loss(x, w, out, up, down):
        q, k, v = ((normed(x) @ w[i]).reshape(64, 4, 16).transpose(1, 0, 2) for i in range(3))
        scores = q @ k.transpose(0, 2, 1) / 4
        each = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        mixed = (each / np.sum(each, axis=-1, keepdims=True)) @ v
        x = x + mixed.transpose(1, 0, 2).reshape(64, 64) @ out
        x = x + np.tanh(normed(x) @ up) @ down
        return np.sum(normed(x) ** 4)

    normal = rng.standard_normal
    return loss, (
        normal((64, 64)),
        0.1 * normal((3, 64, 64)),
        0.1 * normal((64, 64)),
        0.1 * normal((64, 256)),
        0.1 * normal((256, 64)),
    )


PROGRAMS = {
    "kalman": kalman,
    "hidden_markov": hidden_markov,
    "alignment": alignment,
    "lotka_volterra": lotka_volterra,
    "implicit_euler": implicit_euler,
    "bodies": bodies,
    "heat_slices": heat_slices,
    "heat_roll": heat_roll,
    "euler": euler,
    "process_50": process(50),
    "process_500": process(500),
    "regression": regression,
    "hamiltonian": hamiltonian,
    "heston": heston,
    "mixture": mixture,
    "rays": rays,
    "spline": spline,
    "convolutions": convolutions,
    "attention": attention,
}


class Times(NamedTuple):
    first: float
    gradient: float
    primal: float


def measured(program: Any, library: Library) -> tuple[Times, Any]:
    """Times in microseconds, and the value with its gradients."""
    f, arguments = program(library, numpy.random.default_rng(0))
    whole = library.compile(library.value_and_grad(f, tuple(range(len(arguments)))))
    start = time.process_time()
    found = whole(*arguments)
    whole(*arguments)  # which waits for machine code
    first = (time.process_time() - start) * 1e6
    primal = library.compile(f)
    for run in (whole, primal):
        settle(lambda run=run: run(*arguments))
    gradient, value = (
        best(lambda run=run: run(*arguments), 9, 0.01, time.process_time) for run in (whole, primal)
    )
    return Times(first, gradient, value), found


def check(name: str, found: Any, wanted: Any) -> None:
    pairs = zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True)
    for i, (ours, theirs) in enumerate(pairs):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8, err_msg=f"{name}, {i}")


def main(names: list[str]) -> None:
    ours = LIBRARIES["tracker"]()
    theirs = LIBRARIES["jax"]() if is_installed("jax") else None
    for library in (ours, theirs):
        if library is not None:  # the first function of a process pays for imports
            library.compile(library.value_and_grad(library.np.sum, (0,)))(numpy.ones(3))
    print("microseconds: first call, value and gradient, gradient / primal; of jax; jax / ours")
    for name in names or PROGRAMS:
        program = PROGRAMS[name]
        times, found = measured(program, ours)
        line = f"{name:15}{times.first:12.0f}{times.gradient:11.1f}"
        line += f"{times.gradient / times.primal:7.1f}"
        if theirs is not None:
            other, wanted = measured(program, theirs)
            check(name, found, wanted)
            line += f"{other.first:12.0f}{other.gradient:11.1f}"
            line += f"{other.gradient / other.primal:7.1f}"
            line += f"{other.first / times.first:8.1f}{other.gradient / times.gradient:8.1f}"
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
