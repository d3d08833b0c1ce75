"""Which live leaf a value depends on: a leaf that a derivative may still pull back to.

A leaf is live until its derivative has run its function (`close_leaf`); that of a param stays live.
Derivatives in a loop of an outer function ask this of value after value, each made of the last, and
must not walk back to the leaf each time: `Value.live_leaf` caches the answer.

    unset           nothing has asked
    None            depends on no live leaf, for good: leaves only close
    weak reference  to a live leaf; a param's only where there is none of a derivative, for good
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from tracker.tape.observers import close_leaf, is_deriving, is_tracing
from tracker.tape.value import ParamState, Value, leaf

_UNKNOWN: Any = object()


def is_history_needed(result: Value) -> bool:
    """Whether a trace, or a derivative around this one, may need the history of a result. Outside
    of derivatives params do not count: results are plain there."""
    return is_tracing() or depends_on_live_leaf(result, params=is_deriving())


def is_followed(value: Value) -> bool:
    """Whether a trace, a derivative or a param follows a value in this thread. If not, it is plain
    data: a loss in a list, say, when the derivative is done."""
    return is_tracing() or depends_on_live_leaf(value)


def depends_on_live_leaf(root: Value, *, params: bool = True) -> bool:
    """Whether a value depends on a live leaf; of a param only if `params`."""
    leaf = live_leaf(root)
    return leaf is not None and (params or not _is_param(leaf))


def live_leaf(root: Value) -> Value | None:
    """A live leaf that a value depends on: a derivative's, or else a param's, or else None.

    However often this is called, each value is visited once, and again when the leaf that was found
    has closed.
    """
    path: list[tuple[Value, list[Value]]] = []  # with the operands still to visit
    value: Value | None = root
    while value is not None:
        known: Value | None = _known_leaf(value)
        if known is _UNKNOWN:
            path.append((value, [o for o in value.operands if type(o) is Value]))
        elif known is not None and not _is_param(known):
            found = weakref.ref(known)
            for above, _ in path:
                above.live_leaf = found
            return known
        value = _next_unknown(path)
    last: Value | None = _known_leaf(root)
    return None if last is _UNKNOWN else last  # closed meanwhile by another thread


@contextlib.contextmanager
def counted_as_live(values: Sequence[Value]) -> Iterator[None]:
    """Within it, the values count as depending on a live leaf: leaves of a derivative that are no
    fresh ones, because their history is over, or because a rule runs a function again."""
    live = leaf(0.0)
    for value in values:
        value.live_leaf = weakref.ref(live)
    try:
        yield
    finally:
        close_leaf(live)


def _known_leaf(value: Value) -> Any:
    """The live leaf that a value is, or is known to depend on; None; or _UNKNOWN."""
    if value.op is None:
        return value
    cached = getattr(value, "live_leaf", _UNKNOWN)
    if cached is None or cached is _UNKNOWN:
        return cached
    leaf = cached()
    return leaf if leaf is not None and leaf.op is None else _UNKNOWN


def _next_unknown(path: list[tuple[Value, list[Value]]]) -> Value | None:
    """The next value to visit; caches the answer of those without a derivative's leaf."""
    while path:
        value, waiting = path[-1]
        if waiting:
            return waiting.pop()
        leaves = (_known_leaf(o) for o in value.operands if type(o) is Value)
        value.live_leaf = next((weakref.ref(leaf) for leaf in leaves if leaf is not None), None)
        path.pop()
    return None


def _is_param(leaf: Value) -> bool:
    return isinstance(leaf.params, ParamState)
