"""Gradients of solutions of differential equations, and what one solution costs, in SciPy and
compiled; beside jax's odeint where jax is installed.

Run: python benchmarks/differential_equations.py
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate
from compiled import has_jax
from timing import best

import tracker
from tracker.scipy import integrate

TIMES = np.linspace(0.0, 60.0, 20)
START = [0.99, 0.01, 0.0]
TIGHT = {"rtol": 1e-8, "atol": 1e-8}


def sir(t: Any, y: Any, infection: Any, recovery: Any) -> Any:
    s, i, _ = y
    new, recovered = infection * s * i, recovery * i
    return [-new, new - recovered, recovered]


def loss(module: Any, method: str, *rates: Any) -> Any:
    if method == "odeint":
        return np.sum(module.odeint(sir, START, TIMES, rates, tfirst=True, **TIGHT)[:, 1] ** 2)
    given = {"method": method, "t_eval": TIMES, **TIGHT}
    found = module.solve_ivp(lambda t, y: sir(t, y, *rates), (0.0, 60.0), START, **given)
    return np.sum(found.y[1] ** 2)


def jax_gradient() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax.experimental.ode import odeint

    jax.config.update("jax_enable_x64", True)

    def loss(*rates: Any) -> Any:
        y = odeint(lambda y, t: jnp.stack(sir(t, y, *rates)), jnp.array(START), TIMES, **TIGHT)
        return jnp.sum(y[:, 1] ** 2)

    compiled = jax.jit(jax.grad(loss, (0, 1)))
    return lambda *rates: jax.block_until_ready(compiled(*rates))


def rows() -> dict[str, dict[str, float]]:
    """method -> what -> microseconds."""
    rates, found = (0.4, 0.1), {}
    clocked = functools.partial(best, clock=time.thread_time)
    for method in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA", "odeint"):
        f = functools.partial(loss, integrate, method)
        solve, slope = tracker.jit(f), tracker.jit(lambda *rates, f=f: tracker.gradient(f, *rates))
        found[method] = {
            "SciPy": clocked(lambda m=method: loss(scipy.integrate, m, *rates)),
            "gradient": clocked(lambda f=f: tracker.gradient(f, *rates)),
            "compiled": clocked(lambda solve=solve: solve(*rates)),
            "compiled gradient": clocked(lambda slope=slope: slope(*rates)),
        }
    if has_jax():
        theirs = jax_gradient()
        found["odeint"]["jax"] = best(lambda: theirs(*rates))
    return found


if __name__ == "__main__":
    for method, times in rows().items():
        print(f"{method:8}", "  ".join(f"{what} {us:.1f} us" for what, us in times.items()))
        eager = times["gradient"] / times["SciPy"]
        compiled = times["compiled gradient"] / times["compiled"]
        print(f"{'':8} a gradient in solves: {eager:.1f}, compiled {compiled:.1f}")
