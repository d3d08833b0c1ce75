"""Compiled calls: what a person sees, NumPy arrays in and out, against jax where it is installed.

Run: python benchmarks/compiled.py      (minimum of repeats; ratios are within this run)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import best

import tracker


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def fused(xp: Any) -> Callable[..., Any]:
    return lambda x, w, b: xp.sum(xp.tanh(x * w + b) * xp.exp(-(x**2)))


def _jax(f: Callable[..., Any], argnums: Any) -> Callable[..., Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    compiled = jax.jit(jax.value_and_grad(f, argnums))

    def call(*args: Any) -> Any:
        return jax.block_until_ready(compiled(*args))

    return call


def has_jax() -> bool:
    try:
        import jax  # noqa: F401
    except ImportError:
        return False
    return True


def rows() -> dict[str, dict[str, float]]:
    """case -> who -> microseconds a call."""
    found: dict[str, dict[str, float]] = {}
    rng = np.random.default_rng(0)
    for n in (2, 10, 1000, 1_000_000):
        x = rng.random(n)
        ours = tracker.value_and_grad(tracker.jit(rosenbrock))
        row = found.setdefault(f"rosenbrock n={n}", {})
        row["tracker"] = best(lambda ours=ours, x=x: ours(x))
        if has_jax():
            import jax.numpy as jnp

            theirs = _jax(
                lambda x: jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2), 0
            )
            row["jax"] = best(lambda theirs=theirs, x=x: theirs(x))
    for n in (1000, 100_000, 1_000_000):
        for scalars in (True, False):
            x = rng.standard_normal(n)
            w, b = (1.3, 0.2) if scalars else (rng.random(n), rng.random(n))
            ours = tracker.value_and_grad(tracker.jit(fused(np)), (0, 1, 2))
            row = found.setdefault(f"tanh*exp n={n} {'w, b scalars' if scalars else 'vectors'}", {})
            row["tracker"] = best(lambda ours=ours, a=(x, w, b): ours(*a))
            if has_jax():
                import jax.numpy as jnp

                theirs = _jax(fused(jnp), (0, 1, 2))
                row["jax"] = best(lambda theirs=theirs, a=(x, w, b): theirs(*a))
    return found


if __name__ == "__main__":
    for case, times in rows().items():
        ratio = times.get("jax", float("nan")) / times["tracker"]
        cells = "  ".join(f"{who} {us:10.2f} us" for who, us in times.items())
        print(f"{case:32}  {cells}  (jax/tracker {ratio:.1f})")
