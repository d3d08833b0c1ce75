"""How pickle and copy make a jitted function again: from the plain function and the options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tracker.jit.discovery.inspection import is_jitted
from tracker.jit.dispatch.jitted import JittedState, Recipe
from tracker.support.pickling import found_by_name, reduction


def reduce_jitted(self: Any) -> Any:
    """Pickle a decorated function by its name, a derivative by what it was made of, any other by
    the plain function."""
    state: JittedState = self._jitted
    again: tuple[Any, ...]
    if state.recipe is None:
        of = _as_decorated(state.function)
        again = state.make, state.function if of is self else of, state.options
    else:
        again = _made_again(state.recipe, state)
    return reduction(self, sys._getframe(1), *again)


def _made_again(recipe: Recipe, state: JittedState) -> tuple[Any, ...]:
    """What makes a derivative again, and the arguments for that: first, the jitted function that
    was decorated, or another one."""
    of = _as_decorated(recipe.function)
    if of is recipe.function or of._jitted.options is not state.options:
        above = recipe.recipe
        make, *given = _made_again(above, state) if above else (state.make, of, state.options)
        of = make(*given)
    return recipe.build, of, *recipe.options


def _as_decorated(function: Callable[..., Any]) -> Any:
    """The jitted function that has the name of this plain one, of which it is; else the plain one,
    which pickle may find."""
    found = found_by_name(
        getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    )
    return found if is_jitted(found) and found._jitted.function is function else function
