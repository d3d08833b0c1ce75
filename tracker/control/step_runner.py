"""How the steps of a loop are run while its trace is made: op by op, natively once that pays.

Owns: `stepper`. A trace has real values, so a loop that is recorded is also run, once. Its body is
a pure function; after `_PATIENCE` equations it is compiled by itself, and the rest of the steps
cost what a call costs. Bodies of equal text share what was compiled: a nested loop is traced anew
for each derivative and each trace of the loop around it.

Invariant: a body runs natively only where its guards hold; elsewhere `replay` says `PathLeft`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracker.ir.graph import Function
from tracker.jit.runtime.availability import why_not
from tracker.support.structs import replace
from tracker.tape.replay import replay

_PATIENCE = 20_000  # equations, some 3 us each: about what compiling costs
_HASTE = 500  # as many are run before anybody asks whether the body is known
_KNOWN = 128  # bodies that are remembered

_shared: OrderedDict[str, _Body] = OrderedDict()
_replayed = 0  # equations so far, here and in loops inside


class _Body:
    """A body, by its text: how many equations of it were run, and its native form."""

    def __init__(self) -> None:
        self.spent = 0
        self.native: Callable[[Sequence[Any]], Sequence[Any] | None] | None = None


def stepper(function: Function) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that takes and gives what `replay(function, values)` does."""
    size = len(function.body)
    spent, body = 0, None

    def step(values: Sequence[Any]) -> Sequence[Any]:
        nonlocal spent, body
        if body is not None and body.native is not None:
            found = body.native(values)
            if found is not None:
                return found
        found, cost = _counted(function, size, values)
        spent += cost
        if body is None and spent > _HASTE:
            body = _known(function)
            body.spent += spent
        elif body is not None:
            body.spent += cost
            if body.native is None and body.spent > _PATIENCE and not why_not():
                body.native = _compiled(function)
        return found

    return step


def _counted(function: Function, size: int, values: Sequence[Any]) -> tuple[list[Any], int]:
    """The results, and how many equations were run for them."""
    global _replayed
    before = _replayed
    found = replay(function, values)
    _replayed += size
    return found, _replayed - before


def _known(function: Function) -> _Body:
    text = _text(function)
    body = _shared.setdefault(text, _Body())
    _shared.move_to_end(text)
    while len(_shared) > _KNOWN:
        _shared.popitem(last=False)
    return body


def _text(function: Function) -> str:
    """A function's text; nested functions, whose names are numbered, by their order."""
    order = {name: f"f{at}" for at, name in enumerate(_names(function))}
    return re.sub(r"\w+", lambda found: order.get(found[0], found[0]), str(function))


def _names(function: Function) -> Iterator[str]:
    yield function.name
    for nested in function.functions.values():
        yield from _names(nested)


def _compiled(function: Function) -> Callable[[Sequence[Any]], Sequence[Any] | None]:
    from tracker.jit.pipeline.executor import compile_values  # and LLVM with it: only now

    return compile_values(replace(function))
