"""Functions of SciPy's whose results have no derivative: positions of peaks, labels, ranks.

They are handed plain numbers. While a function is traced they are called back: with numbers as
constants, arrays as results, whose shapes are guarded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.leaves import data
from tracker.listening import is_recording
from tracker.rules import custom_gradient
from tracker.tracked import Tracked

UNTRACKED: set[Callable[..., Any]] = set()


def untracked(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function, of the plain numbers that tracked values hold."""

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracked)]
        if not places:
            return theirs(*args, **kwargs)

        def plainly(*numbers: Any) -> Any:
            now = list(leaves)
            for i, number in zip(places, numbers, strict=True):
                now[i] = data(number)
            args_now, kwargs_now = tree.unflatten(structure, now, (args, kwargs))
            return theirs(*args_now, **kwargs_now)

        given = [leaves[i] for i in places]
        return called_back(plainly, given) if is_recording() else plainly(*given)

    UNTRACKED.add(call)
    return call


def called_back(function: Callable[..., Any], given: list[Any]) -> Any:
    """What a function of plain numbers gives, as constants of a trace that are found anew on each
    call; their number and their shapes are guarded."""
    made = function(*map(data, given))
    found, structure = tree.flatten(made)
    numeric = [k for k, leaf in enumerate(found) if tree.is_numeric(leaf)]

    def results(*numbers: Any) -> list[Any]:
        leaves = tree.flatten(function(*numbers))[0]
        return [leaves[k] for k in numeric]

    def extents(*numbers: Any) -> Any:
        lengths = [n for y in results(*numbers) for n in np.shape(y)]
        return np.array(lengths, dtype=np.int64)

    for length in _hosted(extents, given):
        int(length)
    for place, k in enumerate(numeric):
        found[k] = _hosted(lambda *n, place=place: results(*n)[place], given)
    return tree.unflatten(structure, found, made)


def _hosted(function: Callable[..., Any], given: list[Any]) -> Any:
    @custom_gradient(host=True)
    def host(*numbers: Any) -> Any:
        return function(*numbers), lambda dy: (None,) * len(numbers)

    return host(*given)
