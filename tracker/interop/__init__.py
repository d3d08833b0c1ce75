"""Functions of other libraries here, and functions of tracker there.

to_jax, stablehlo                   the recorded program, run by JAX (`jax_function.py`)
from_jax, from_torch, from_numba    a function of theirs, differentiated here (`foreign.py`)
as_jax, as_torch, as_pytensor_op, as_nutpie   a function of tracker for them, which computes it on
                                    the host (`wrappers.py`)

`program.py` has programs and their derivatives in JAX, `replay.py` runs an `ir.Function` on JAX's
arrays, and `jax_ops` says what each op is there. Each library is imported when it is first needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tracker.errors import message

if TYPE_CHECKING:
    from tracker.interop.foreign import from_jax, from_numba, from_torch
    from tracker.interop.jax_function import stablehlo, to_jax
    from tracker.interop.wrappers import as_jax, as_nutpie, as_pytensor_op, as_torch
else:
    _FILES = {
        "as_jax": "wrappers",
        "as_nutpie": "wrappers",
        "as_pytensor_op": "wrappers",
        "as_torch": "wrappers",
        "from_jax": "foreign",
        "from_numba": "foreign",
        "from_torch": "foreign",
        "stablehlo": "jax_function",
        "to_jax": "jax_function",
    }

    def __getattr__(name: str) -> Any:
        """Import functions at first use, and say what to install."""
        if name not in _FILES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "jax":
                raise
            raise ImportError(
                message(f"tracker.{name} needs JAX", "pip install 'tracker-grad[jax]'", "")
            ) from error


__all__ = [
    "as_jax",
    "as_nutpie",
    "as_pytensor_op",
    "as_torch",
    "from_jax",
    "from_numba",
    "from_torch",
    "stablehlo",
    "to_jax",
]


def __dir__() -> list[str]:
    return __all__
