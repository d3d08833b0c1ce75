"""What values were made of: whether a leaf is among it that a derivative may still ask for.

Owns: `live_leaf`, and what is asked of it: `is_history_needed`, `depends_on_live_leaf`. A leaf is
open until its derivative has run its function (`stage.close`); a param's is open for good.

Whoever asks of one value after another, each made of the last, as the derivatives in a loop of an
outer function do, must not walk to the far leaf each time: `Value.origin` keeps what was found.
Unset: nobody has asked. None: the value was made of no open leaf, and so for good, for leaves only
close. A weak reference: to an open leaf; a param's only where no derivative's is there, for good.
"""

from __future__ import annotations

import weakref
from typing import Any

from tracker.tape.observers import is_deriving, is_tracing
from tracker.tape.record import value_of
from tracker.tape.tracked import ParamState, Tracked
from tracker.tape.value import Value

_UNKNOWN: Any = object()


def is_history_needed(x: Tracked) -> bool:
    """Whether a trace, or a derivative around this one, may ask where a result comes from.

    Outside of any derivative, nobody asks for that of a param: results are plain.
    """
    return is_tracing() or depends_on_live_leaf(value_of(x), params=is_deriving())


def depends_on_live_leaf(root: Value, *, params: bool = True) -> bool:
    """Whether an open leaf is in the history of a value; params' are left out if they are not to
    count."""
    leaf = live_leaf(root)
    return leaf is not None and (params or not _is_param(leaf))


def live_leaf(root: Value) -> Value | None:
    """An open leaf that a value was made of: a derivative's, or else a param's, or else None.

    In any number of questions a value is looked at once, and again when the leaf that was found
    has closed.
    """
    path: list[tuple[Value, list[Value]]] = []  # with the operands that are still to be looked at
    value: Value | None = root
    while value is not None:
        known: Value | None = _known_leaf(value)
        if known is _UNKNOWN:
            path.append((value, [o for o in value.operands if type(o) is Value]))
        elif known is not None and not _is_param(known):
            found = weakref.ref(known)
            for above, _ in path:
                above.origin = found
            return known
        value = _next_unknown(path)
    last: Value | None = _known_leaf(root)
    return None if last is _UNKNOWN else last  # it has closed meanwhile, in another thread


def _known_leaf(value: Value) -> Any:
    """The open leaf that a value is, or is known to be made of; None; or that nothing is known."""
    if value.op is None:
        return value
    origin = getattr(value, "origin", _UNKNOWN)
    if origin is None or origin is _UNKNOWN:
        return origin
    leaf = origin()
    return leaf if leaf is not None and leaf.op is None else _UNKNOWN


def _next_unknown(path: list[tuple[Value, list[Value]]]) -> Value | None:
    """The next value to look at; those without a derivative's leaf are told what they have."""
    while path:
        value, waiting = path[-1]
        if waiting:
            return waiting.pop()
        leaves = (_known_leaf(o) for o in value.operands if type(o) is Value)
        value.origin = next((weakref.ref(leaf) for leaf in leaves if leaf is not None), None)
        path.pop()
    return None


def _is_param(leaf: Value) -> bool:
    return isinstance(leaf.params, ParamState)
