"""Compiled functions beside the plain ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from equality import assert_same

from tracker import jit


def agree(
    f: Callable[..., Any],
    *arguments: Any,
    others: Iterable[tuple[Any, ...]] = (),
    tolerance: float = 1e-12,
    native: bool = False,
    **options: Any,
) -> Any:
    """The jitted function, which gives the plain one's results and writes what it writes: traced,
    as machine code, and for `others`; if it is `native`, NumPy has no part in it. The `options` are
    of `jit`."""
    fast = jit(f, **options)
    same_calls(fast, f, *arguments, tolerance=tolerance)
    for given in others:
        same_calls(fast, f, *given, times=1, tolerance=tolerance)
    if native:
        assert_native(fast, *arguments)
    return fast


def same_calls(
    fast: Callable[..., Any],
    f: Callable[..., Any],
    *arguments: Any,
    times: int = 2,
    tolerance: float = 1e-12,
) -> None:
    """Calls of the compiled function and of the plain one: results, and what they write."""
    for _ in range(times):
        ours, plain = ([copied(x) for x in arguments] for _ in range(2))
        want = f(*plain)
        assert_same(fast(*ours), want, "result", tolerance)
        assert_same(ours, plain, "arguments", tolerance)


def assert_native(fast: Any, *arguments: Any) -> None:
    """No host call."""
    lines = fast.explain(*arguments).splitlines()
    assert not [line for line in lines if line.strip().startswith("host:")]


def copied(x: Any) -> Any:
    """A copy of an array, of the same strides, alignment and flags; other things as they are."""
    if not isinstance(x, np.ndarray) or x.dtype.hasobject:
        return x
    low, high = np.lib.array_utils.byte_bounds(x)
    memory = np.zeros(high - low + 64, np.uint8)
    at = x.ctypes.data - low + (low - memory.ctypes.data) % 64
    copy = np.ndarray(x.shape, x.dtype, memory, at, x.strides).view(type(x))
    copy[...] = x
    copy.flags.writeable = x.flags.writeable
    return copy


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and errors of floating point."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
