"""Optimisers and implicit derivatives beside SciPy and jaxopt, in one run:

    python benchmarks/implicit.py

Prints for each program its time, the least of several repeats, and its error. jaxopt is left out
where it is not installed.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
from timing import best, settle

import tracker
from tracker import implicit, optim

RNG = np.random.default_rng(0)
Program = tuple[str, Callable[[], Any], Callable[[Any], float]]  # its error, of its result


def measure(title: str, programs: list[Program]) -> None:
    print(f"\n{title}")
    for name, call, error_of in programs:
        settle(call)
        milliseconds = 1e-3 * best(call, repeats=5)
        print(f"  {name:<44} {milliseconds:10.3f} ms   error {error_of(call()):.1e}")


def jaxopt_installed() -> bool:
    return importlib.util.find_spec("jaxopt") is not None


def rosenbrock(np_: Any) -> Callable[[Any], Any]:
    return lambda x: np_.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def lbfgs_programs() -> list[Program]:
    start = np.full(100, 0.5)
    fast = tracker.jit(rosenbrock(np))
    exact = {"gtol": 1e-6, "ftol": 0.0}
    pair = tracker.value_and_grad(fast)
    options = {"gtol": 1e-6, "ftol": 0.0, "maxiter": 1000}

    def error(x: Any) -> float:
        return float(np.max(np.abs(np.asarray(x) - 1.0)))

    programs: list[Program] = [
        ("optim.lbfgs, f jitted", lambda: optim.lbfgs(fast, start, **exact).x, error),
        (
            "SciPy L-BFGS-B, f and gradient jitted",
            lambda: (
                scipy.optimize.minimize(pair, start, jac=True, method="L-BFGS-B", options=options).x
            ),
            error,
        ),
    ]
    if jaxopt_installed():
        import jax
        import jax.numpy as jnp
        import jaxopt

        solver = jaxopt.LBFGS(rosenbrock(jnp), tol=1e-6, maxiter=1000)
        run = jax.jit(lambda x: solver.run(x).params)
        programs.append(("jaxopt.LBFGS, all jitted", lambda: run(start).block_until_ready(), error))
    return programs


TIMES = np.linspace(0.0, 4.0, 1000)
TRUTH = np.array([2.5, 1.3, 0.5])


def decay(np_: Any) -> Callable[[Any], Any]:
    data = TRUTH[0] * np.exp(-TRUTH[1] * TIMES) + TRUTH[2]
    return lambda p: p[0] * np_.exp(-p[1] * TIMES) + p[2] - data


def least_squares_programs() -> list[Program]:
    start = np.ones(3)
    fast = tracker.jit(decay(np))

    def error(x: Any) -> float:
        return float(np.max(np.abs(np.asarray(x) - TRUTH)))

    programs: list[Program] = []
    for solve in (optim.gauss_newton, optim.levenberg_marquardt):
        name = f"optim.{solve.__name__}, f jitted"
        programs.append((name, lambda solve=solve: solve(fast, start).x, error))
    programs.append(
        (
            "SciPy least_squares, f and Jacobian jitted",
            lambda: (
                scipy.optimize.least_squares(
                    fast, start, jac=lambda p: tracker.jacobian(fast, p)[0], method="lm"
                ).x
            ),
            error,
        )
    )
    if jaxopt_installed():
        import jax
        import jax.numpy as jnp
        import jaxopt

        for make in (jaxopt.GaussNewton, jaxopt.LevenbergMarquardt):
            solver = make(decay(jnp), tol=1e-8)
            run = jax.jit(lambda p, solver=solver: solver.run(p).params)
            name = f"jaxopt.{make.__name__}, all jitted"
            programs.append((name, lambda run=run: run(start).block_until_ready(), error))
    return programs


def ridge_programs(size: int) -> list[Program]:
    x, y = RNG.normal(size=(2 * size, size)), RNG.normal(size=2 * size)
    other_x, other_y = RNG.normal(size=(size, size)), RNG.normal(size=size)

    def cost(w: Any, s: Any) -> Any:
        r = x @ w - y
        return r @ r + s * (w @ w)

    def closed(s: Any) -> Any:
        return np.linalg.solve(x.T @ x + s * np.eye(size), x.T @ y)

    def loss(w: Any) -> Any:
        r = other_x @ w - other_y
        return r @ r

    (want,) = tracker.gradient(lambda s: loss(closed(s)), 10.0)

    def error(found: Any) -> float:
        return abs(float(found) / float(want) - 1.0)

    fit = implicit.minimum(cost, closed)
    fast = tracker.jit(lambda s: tracker.gradient(lambda s: loss(fit(s)), s)[0])
    programs: list[Program] = [
        ("implicit.minimum", lambda: tracker.gradient(lambda s: loss(fit(s)), 10.0)[0], error),
        ("implicit.minimum, all jitted", lambda: fast(10.0), error),
        (
            "central differences of the solver",
            lambda: (loss(closed(10.0 + 1e-3)) - loss(closed(10.0 - 1e-3))) / 2e-3,
            error,
        ),
    ]
    if jaxopt_installed():
        import jax
        import jax.numpy as jnp
        import jaxopt

        @jaxopt.implicit_diff.custom_root(jax.grad(cost))
        def solver(init: Any, s: Any) -> Any:
            return jnp.linalg.solve(x.T @ x + s * jnp.eye(size), x.T @ y)

        run = jax.jit(jax.grad(lambda s: loss(solver(None, s))))
        name = "jaxopt custom_root, all jitted"
        programs.append((name, lambda: run(10.0).block_until_ready(), error))
    return programs


def quadratic_programs(size: int, rows: int) -> list[Program]:
    root = RNG.normal(size=(size, size))
    p = root @ root.T / size + np.eye(size)
    a, x = RNG.normal(size=(rows, size)), RNG.normal(size=size)
    held = np.arange(rows) < rows // 2
    q = -(p @ x + a.T @ np.where(held, 1.0, 0.0))
    b = a @ x + np.where(held, 0.0, 1.0)
    active = a[held]
    system = np.block([[p, active.T], [active, np.zeros((len(active), len(active)))]])
    want = np.linalg.solve(system, np.concatenate([np.ones(size), np.zeros(len(active))]))[:size]

    def error(found: Any) -> float:
        return float(np.max(np.abs(np.asarray(found) + want)) / np.max(np.abs(want)))

    def solve(q: Any) -> Any:
        return scipy.optimize.minimize(
            lambda x: 0.5 * x @ p @ x + q @ x,
            np.zeros(size),
            jac=lambda x: p @ x + q,
            constraints=scipy.optimize.LinearConstraint(a, -np.inf, b),
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        ).x

    def differences() -> Any:
        return [np.sum(solve(q + h) - solve(q - h)) / 2e-4 for h in 1e-4 * np.eye(size)]

    programs: list[Program] = [
        ("SciPy SLSQP, without a derivative", lambda: solve(q), lambda _: np.nan),
        (
            "SciPy SLSQP, with tracker.gradient",
            lambda: tracker.gradient(lambda q: np.sum(solve(q)), q)[0],
            error,
        ),
        ("SciPy SLSQP, central differences", differences, error),
    ]
    if jaxopt_installed():
        import jax
        import jaxopt

        solver = jaxopt.OSQP(tol=1e-8, maxiter=20000)

        def loss(q: Any) -> Any:
            return solver.run(params_obj=(p, q), params_ineq=(a, b)).params.primal.sum()

        run = jax.jit(jax.grad(loss))
        name = "jaxopt.OSQP, with jax.grad, all jitted"
        programs.append((name, lambda: run(q).block_until_ready(), error))
    return programs


def main() -> None:
    if jaxopt_installed():
        import jax

        jax.config.update("jax_enable_x64", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measure("L-BFGS: Rosenbrock, 100 unknowns", lbfgs_programs())
        measure("least squares: 3 parameters, 1000 points", least_squares_programs())
        for size in (20, 500):
            title = f"gradient of a validation loss in the strength of a ridge of {size} weights"
            measure(title, ridge_programs(size))
        measure("gradient of a quadratic program: 20 unknowns, 10 rows", quadratic_programs(20, 10))


if __name__ == "__main__":
    main()
