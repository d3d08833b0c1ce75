"""`over_batches`: functions of one matrix, mapped over stacks of matrices. Leading axes broadcast,
as in SciPy's `linalg`."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from tracker.scipy._bridge.fallback import as_array

Function = Callable[..., Any]


def over_batches(
    theirs: str = "", /, *, like: Any = None, **cores: int | None
) -> Callable[[Function], Function]:
    """Decorator: `cores` names the array arguments and the number of axes of one element; None
    means one axis if the array has no more, else two. Results are stacked. `theirs` is SciPy's
    name, if it differs; `like` has the signature."""

    def enter(function: Function) -> Function:
        signature = inspect.signature(like or function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments
            arrays = {name: as_array(given[name]) for name in cores if given.get(name) is not None}
            at = {name: _batch_ndim(np.ndim(x), cores[name]) for name, x in arrays.items()}
            fronts = [np.shape(x)[: at[name]] for name, x in arrays.items()]
            if not any(fronts):
                return function(*args, **kwargs)
            front = np.broadcast_shapes(*fronts)
            count = math.prod(front)
            if count == 0:
                raise ValueError(f"`{function.__name__}` does not support zero-size batches.")
            for name, x in arrays.items():
                own = np.shape(x)[at[name] :]
                arrays[name] = np.reshape(np.broadcast_to(x, front + own), (count, *own))
            found = []
            for i in range(count):
                given.update({name: x[i] for name, x in arrays.items()})
                found.append(function(*bound.args, **bound.kwargs))
            if not isinstance(found[0], tuple):
                return _stack_batch(found, front)
            parts = [_stack_batch(part, front) for part in zip(*found, strict=True)]
            return parts if _returns_list(theirs or function.__name__) else tuple(parts)

        return call

    return enter


@functools.cache
def _returns_list(name: str) -> bool:
    """Whether results are in a list, as SciPy's own decorator for batches returns them. Its other
    functions, more of them since 1.18, return tuples."""
    return hasattr(getattr(scipy.linalg, name, None), "__wrapped__")


def _batch_ndim(ndim: int, core: int | None) -> int:
    return max(ndim - (min(ndim, 2) if core is None else core), 0)


def _stack_batch(parts: Any, front: tuple[int, ...]) -> Any:
    if parts[0] is None:
        return None
    return np.reshape(np.stack(parts), (*front, *np.shape(parts[0])))
