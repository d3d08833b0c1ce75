"""What a function of an eval is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """`read` makes the arguments of `run` from the message's input, `write` JSON of its result."""

    read: Callable[[Any], tuple[Any, ...]]
    run: Callable[..., Any]
    write: Callable[[Any], Any] = lambda y: y.tolist()


def floats(x: Any) -> np.ndarray:
    return np.array(x, dtype=float)
