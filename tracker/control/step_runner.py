"""How the steps of a loop are run while its trace is made: op by op, natively once that pays.

Owns: `make_stepper`. A trace has real values, so a loop that is recorded is also run, once. Its
body is a pure function; after `_COMPILE_AFTER` equations it is compiled by itself, and the rest of
the steps cost what a call costs. Bodies of equal text share what was compiled: a nested loop is
traced anew for each derivative and each trace of the loop around it.

Invariant: a body runs natively only where its guards hold; elsewhere `replay` says `PathLeft`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracker.ir.graph import Function
from tracker.jit import why_unavailable
from tracker.support.structs import replace
from tracker.tape.replay import replay

_COMPILE_AFTER = 20_000  # equations, some 3 us each: about what compiling costs
_PROFILE_AFTER = 500  # as many are run before anybody asks whether the body is known
_CACHE_SIZE = 128  # bodies that are remembered

_profiles: OrderedDict[str, _BodyProfile] = OrderedDict()
_equations_replayed = 0  # equations so far, here and in loops inside


class _BodyProfile:
    """A body, by its text: how many equations of it were run, and its native form."""

    def __init__(self) -> None:
        self.equations_run = 0
        self.native: Callable[[Sequence[Any]], Sequence[Any] | None] | None = None


def make_stepper(function: Function) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that takes and gives what `replay(function, values)` does."""
    size = len(function.body)
    spent, body = 0, None

    def step(values: Sequence[Any]) -> Sequence[Any]:
        nonlocal spent, body
        if body is not None and body.native is not None:
            found = body.native(values)
            if found is not None:
                return found
        found, cost = _replay_and_count(function, size, values)
        spent += cost
        if body is None and spent > _PROFILE_AFTER:
            body = _profile_of(function)
            body.equations_run += spent
        elif body is not None:
            body.equations_run += cost
            if (
                body.native is None
                and body.equations_run > _COMPILE_AFTER
                and not why_unavailable()
            ):
                body.native = _compile_body(function)
        return found

    return step


def _replay_and_count(
    function: Function, size: int, values: Sequence[Any]
) -> tuple[list[Any], int]:
    """The results, and how many equations were run for them."""
    global _equations_replayed
    before = _equations_replayed
    found = replay(function, values)
    _equations_replayed += size
    return found, _equations_replayed - before


def _profile_of(function: Function) -> _BodyProfile:
    text = _cache_key(function)
    body = _profiles.setdefault(text, _BodyProfile())
    _profiles.move_to_end(text)
    while len(_profiles) > _CACHE_SIZE:
        _profiles.popitem(last=False)
    return body


def _cache_key(function: Function) -> str:
    """A function's text; nested functions, whose names are numbered, by their order."""
    order = {name: f"f{at}" for at, name in enumerate(_function_names(function))}
    return re.sub(r"\w+", lambda found: order.get(found[0], found[0]), str(function))


def _function_names(function: Function) -> Iterator[str]:
    yield function.name
    for nested in function.functions.values():
        yield from _function_names(nested)


def _compile_body(function: Function) -> Callable[[Sequence[Any]], Sequence[Any] | None]:
    from tracker.jit import compile_values  # imports LLVM, so only here

    return compile_values(replace(function))
