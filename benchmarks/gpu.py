"""Values and gradients on a GPU beside the processor, by tracker and by JAX (`to_jax`).

    python benchmarks/gpu.py --output results.json

For each program and precision: ms per call of tracker (compiled, on the processor), of JAX on the
processor and of JAX on its first other device; and how far the gradient is from tracker's in
float64, relative to its largest entry. `--quick` has smaller programs.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

import jax
import numpy as np
from scipy.special import erf
from timing import best, settle

import tracker

LINE = "{program:15} {dtype} {where:14} {ms:12.3f} ms  {difference:.1e}"
_rng = np.random.default_rng(0)


def digits(quick):
    """A network of two layers on images of 8 x 8: (loss, gradient of the weights)."""
    count = 200 if quick else 1797
    images = _rng.random((count, 64))
    labels = np.eye(10)[_rng.integers(0, 10, count)]
    weights = {
        "w": _rng.normal(size=(64, 128)) / 8, "b": np.zeros(128),
        "v": _rng.normal(size=(128, 10)) / 11, "c": np.zeros(10),
    }  # fmt: skip

    def loss(weights, images, labels):
        hidden = np.tanh(images @ weights["w"] + weights["b"])
        scores = hidden @ weights["v"] + weights["c"]
        top = np.max(scores, axis=1, keepdims=True)
        total = np.log(np.sum(np.exp(scores - top), axis=1, keepdims=True)) + top
        return -np.mean(np.sum((scores - total) * labels, axis=1))

    return loss, (weights, images, labels)


def bodies(quick):
    """The potential energy of bodies, whose gradient has the forces."""
    count = 1000 if quick else 10_000
    places, masses = _rng.normal(size=(count, 3)), _rng.random(count) / count

    def energy(places, masses):
        squares = np.sum(places**2, axis=1)
        distances = squares[:, None] + squares[None, :] - 2.0 * (places @ places.T)
        return -0.5 * masses @ (1.0 / np.sqrt(distances + 0.01)) @ masses

    return energy, (places, masses)


def options(quick):
    """The value of options by Black and Scholes, and its slope in price and volatility."""
    count = 100_000 if quick else 10_000_000
    prices, volatilities = _rng.uniform(80.0, 120.0, count), _rng.uniform(0.1, 0.5, count)

    def value(prices, volatilities):
        strike, rate, years = 100.0, 0.02, 1.5
        width = volatilities * np.sqrt(years)
        d1 = (np.log(prices / strike) + rate * years) / width + 0.5 * width
        cumulative = [0.5 + 0.5 * erf(d * np.sqrt(0.5)) for d in (d1, d1 - width)]
        discounted = strike * np.exp(-rate * years)
        return np.mean(prices * cumulative[0] - discounted * cumulative[1])

    return value, (prices, volatilities)


PROGRAMS = {
    "digits network": (digits, 0),
    "n-body energy": (bodies, 0),
    "Black-Scholes": (options, (0, 1)),
}


def narrowed(args, dtype):
    return tracker.tree.map(lambda x: x.astype(dtype), args)


def difference(found, wanted):
    """The largest of the differences of gradients, relative to the largest entries."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return max(float(np.max(np.abs(np.asarray(a) - b)) / np.max(np.abs(b))) for a, b in pairs)


def calls(f, argnums, args, devices):
    """(where, a function that computes value and gradient) of all ways to run a program."""
    compiled = tracker.jit(tracker.value_and_grad(f, argnums))
    yield "tracker, cpu", lambda: compiled(*args)
    both = jax.jit(jax.value_and_grad(tracker.to_jax(f, *args), argnums))
    for name, device in devices.items():
        placed = jax.device_put(args, device)
        yield f"jax, {name}", lambda placed=placed: jax.block_until_ready(both(*placed))


def measure(quick, devices):
    for name, (make, argnums) in PROGRAMS.items():
        f, wide = make(quick)
        wanted = None
        for dtype in ("float64", "float32"):
            for where, call in calls(f, argnums, narrowed(wide, dtype), devices):
                start = time.perf_counter()
                _, gradient = call()
                first = time.perf_counter() - start
                if where.startswith("tracker"):
                    settle(call)
                wanted = gradient if wanted is None else wanted
                row = {
                    "program": name, "dtype": dtype, "where": where,
                    "first call s": round(first, 3),
                    "ms": round(best(call, repeats=3) / 1e3, 4),
                    "difference": difference(gradient, wanted),
                }  # fmt: skip
                print(
                    "{program:15} {dtype} {where:14} {ms:12.3f} ms  {difference:.1e}".format(**row)
                )
                yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="a file for the results, as JSON")
    parser.add_argument("--quick", action="store_true", help="smaller programs")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    devices = {"cpu": jax.devices("cpu")[0]}
    if jax.devices()[0].platform != "cpu":
        devices[jax.devices()[0].platform] = jax.devices()[0]
    start = time.perf_counter()
    results = {
        "devices": {name: device.device_kind for name, device in devices.items()},
        "machine": platform.machine(),
        "versions": {m.__name__: m.__version__ for m in (jax, np, tracker)},
        "rows": list(measure(given.quick, devices)),
    }
    results["seconds"] = round(time.perf_counter() - start, 1)
    print(f"{results['seconds']} s in all")
    if given.output:
        with open(given.output, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
