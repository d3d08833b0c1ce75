"""Compiled functions beside the plain ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from equality import assert_same

from tracker import gradient, jit

Function = Callable[..., Any]


def agree(
    f: Function, *arguments: Any, native: bool = False, strict: bool = False, **compared: Any
) -> Any:
    """The jitted function, whose calls are those of the plain one (see `calls_agree`); if it is
    `native`, NumPy has no part in them."""
    fast = jit(f, strict=strict)
    calls_agree(fast, f, *arguments, **compared)
    if native:
        assert_native(fast, *arguments)
    return fast


def gradients_agree(f: Function, *arguments: Any, **compared: Any) -> None:
    """Gradients of the jitted function, and jitted ones, are those of the plain function."""
    fast = jit(f)
    for derivative in (lambda *xs: gradient(fast, *xs), jit(lambda *xs: gradient(f, *xs))):
        calls_agree(derivative, lambda *xs: gradient(f, *xs), *arguments, **compared)


def calls_agree(
    fast: Function,
    f: Function,
    *arguments: Any,
    others: Iterable[tuple[Any, ...]] = (),
    times: int = 2,
    tolerance: float = 1e-12,
) -> None:
    """Calls give the plain function's results and write what it writes: some with these arguments,
    of which the last is machine code's, and one for each of `others`."""
    for given in (*[arguments] * times, *others):
        ours, plain = ([copied(x) for x in given] for _ in range(2))
        want = f(*plain)
        assert_same(fast(*ours), want, "result", tolerance)
        assert_same(ours, plain, "arguments", tolerance)


def assert_native(fast: Any, *arguments: Any) -> None:
    """No host call."""
    lines = fast.explain(*arguments).splitlines()
    assert not [line for line in lines if line.strip().startswith("host:")]


def copied(x: Any) -> Any:
    """A copy of an array, of the same strides, alignment and flags; other things as they are."""
    if type(x) is not np.ndarray or x.dtype.hasobject:
        return x
    low, high = np.lib.array_utils.byte_bounds(x)
    memory = np.zeros(high - low + 64, np.uint8)
    at = x.ctypes.data - low + (low - memory.ctypes.data) % 64
    copy = np.ndarray(x.shape, x.dtype, memory, at, x.strides)
    copy[...] = x
    copy.flags.writeable = x.flags.writeable
    return copy


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and errors of floating point."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
