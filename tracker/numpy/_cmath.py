"""Python's `cmath`, also of tracked numbers: as `_math.py`, with complex results."""

from __future__ import annotations

import cmath as _cmath
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.numpy import _math
from tracker.ops.shape.create import item
from tracker.tape.record import apply
from tracker.tape.tracked import Tracked

_SAME_NAMES = ("cos", "cosh", "exp", "log10", "sin", "sinh", "sqrt", "tan", "tanh")


def _complex(x: Any) -> Any:
    return np.astype(x, np.complex128) if isinstance(x, Tracked) else x


def _python_number(y: Any) -> Any:
    """A complex number of Python's, or a float; each of several."""
    if type(y) is tuple:
        return tuple(map(_python_number, y))
    return apply(item, (y,)) if isinstance(y, Tracked) else np.asarray(y).item()


def _like_cmath(name: str, ours: Callable[..., Any]) -> Callable[..., Any]:
    return _math.like_python(
        getattr(_cmath, name),
        ours,
        _complex,
        _python_number,
        module=__name__,
        is_total=name in ("phase", "polar", "rect"),
    )


_OURS = {name: getattr(np, name) for name in _SAME_NAMES}
_OURS |= {name: getattr(np, like) for name, like in _math.INVERSES.items()}
_OURS |= {
    "log": _math.log_,
    "phase": np.angle,
    "polar": lambda z: (np.abs(z), np.angle(z)),
    "rect": lambda r, phi: np.real(r) * np.exp(1j * np.real(phi)),
}
globals().update({name: x for name, x in vars(_cmath).items() if not name.startswith("_")})
globals().update(
    {name: _like_cmath(name, x) for name, x in _OURS.items()}
    | {
        name: _math.asking(getattr(_cmath, name), getattr(np, name), __name__)
        for name in _math.ASKED
    }
    | {"isclose": _math.asking(_cmath.isclose, _math.isclose_, __name__)}
)
__all__ = [name for name in dir(_cmath) if not name.startswith("_")]
