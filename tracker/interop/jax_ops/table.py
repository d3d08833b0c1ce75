"""The table of ops in JAX, and how families enter theirs.

A rule is called as rule(step, *operands, **params): the operands are JAX's arrays, or NumPy's where
they are constants, and `step` (see `replay.py`) is the equation. Operands of elementwise ops have
the dtypes in which NumPy computes; results are cast to the dtype of the equation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of the ops of these names."""

    def enter(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, f))
        return f

    return enter


def functions(table: dict[str, Callable[..., Any]]) -> None:
    """Enter functions of the operands and params alone."""
    for name, f in table.items():
        RULES[name] = _without_step(f)


def same_names(module: Any, names: str) -> None:
    """Enter a module's functions of these names for the ops of the same names."""
    functions({name: getattr(module, name) for name in names.split()})


def _without_step(f: Callable[..., Any]) -> Rule:
    return lambda step, *operands, **params: f(*operands, **params)
