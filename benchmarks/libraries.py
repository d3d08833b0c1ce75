"""What a benchmark is written over: a `Library`, which is ours, NumPy alone, or a peer. Derivatives
that are written by hand in C++ are a peer, too.

NumPy arrays go in, results may stay in the library's own arrays, computed when the call returns.
Peers are imported where they are asked for; `is_installed` says whether they can be.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import hand_written
import numpy


class Library(NamedTuple):
    name: str
    np: Any
    scan: Callable[..., Any]  # (step, state, rows): the last state and the stacked results
    add: Callable[..., Any]  # (array, index, what is added there)
    value_and_grad: Callable[..., Any]  # (f, argnums): the function of value and gradients
    compile: Callable[..., Any]  # (f): the same function, compiled, where the library can


def python_scan(step: Any, state: Any, rows: Any) -> Any:
    results = []
    for i in range(len(rows[0])):
        state, result = step(state, *(row[i] for row in rows))
        results.append(result)
    return state, None if results[0] is None else numpy.stack(results)


def python_add(array: Any, index: Any, values: Any) -> Any:
    array = array.copy()
    array[index] += values
    return array


def _unchanged(f: Any, *_: Any) -> Any:
    return f


def _numpy() -> Library:
    """The value only: what others compute beside it is the price of the gradient."""
    return Library("numpy", numpy, python_scan, python_add, _unchanged, _unchanged)


def _tracker() -> Library:
    import tracker

    return Library("tracker", numpy, python_scan, python_add, tracker.value_and_grad, tracker.jit)


def _jax() -> Library:
    import jax

    jax.config.update("jax_enable_x64", True)

    def compile(f: Any) -> Any:
        run = jax.jit(f)
        return lambda *arguments: jax.block_until_ready(run(*arguments))

    def scan(step: Any, state: Any, rows: Any) -> Any:
        return jax.lax.scan(lambda s, row: step(s, *row), state, rows)

    def add(array: Any, index: Any, values: Any) -> Any:
        return array.at[index].add(values)

    return Library("jax", jax.numpy, scan, add, jax.value_and_grad, compile)


def _torch() -> Library:
    import torch

    def value_and_grad(f: Any, argnums: Sequence[int]) -> Any:
        def run(*arguments: Any) -> Any:
            leaves = [torch.as_tensor(a, dtype=torch.float64) for a in arguments]
            for i in argnums:
                leaves[i] = leaves[i].detach().requires_grad_()
            value = f(*leaves)
            slopes = torch.autograd.grad(value, [leaves[i] for i in argnums])
            return value.item(), tuple(slope.numpy() for slope in slopes)

        return run

    return Library("torch", torch, python_scan, python_add, value_and_grad, _unchanged)


def _autograd() -> Library:
    import autograd
    import autograd.numpy

    return Library(
        "autograd",
        autograd.numpy,
        python_scan,
        python_add,
        lambda f, argnums: autograd.value_and_grad(f, tuple(argnums)),
        _unchanged,
    )


def _by_hand() -> Library:
    """The arguments; the programs are those of `hand_written.cpp`."""
    return Library("C++", numpy, python_scan, python_add, _unchanged, _unchanged)


PEERS = {"jax": _jax, "torch": _torch, "autograd": _autograd, "C++": _by_hand}
LIBRARIES = {"numpy": _numpy, "tracker": _tracker, **PEERS}


def is_installed(name: str) -> bool:
    if name == "C++":
        return shutil.which(hand_written.COMPILER) is not None
    return importlib.util.find_spec(name) is not None


def version(name: str) -> str:
    return hand_written.version() if name == "C++" else importlib.metadata.version(name)
