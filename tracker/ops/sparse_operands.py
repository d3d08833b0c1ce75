"""SciPy's sparse arrays beside tracked values, for code that does not import `tracker.scipy`.

SciPy's operators convert dense operands, without asking whose operator should run. They are
wrapped: with a tracked operand, they call `tracker.scipy.sparse`, which is imported then.
"""

from __future__ import annotations

import importlib
from typing import Any

from tracker.support.library_hooks import when_imported, wrap_method
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracked import Tracked

_FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
_METHODS = (
    *("_matmul_dispatch", "_rmatmul_dispatch", "multiply", "__truediv__"),
    *("__add__", "__radd__", "__sub__", "__rsub__"),
)


def _install(sparse: Any) -> None:
    for format in _FORMATS:
        for cls in getattr(sparse, f"{format}_array").__mro__:
            for name in _METHODS:
                if name in vars(cls):
                    wrap_method(cls, name, _with_tracked_operand(name))


def _with_tracked_operand(name: str) -> Any:
    def wrap(theirs: Any) -> Any:
        def method(self: Any, other: Any) -> Any:
            other = resolve_placeholder(other)
            if type(other) is Tracked or hasattr(type(other), "_tracker_sparse"):
                operators = importlib.import_module("tracker.scipy.sparse.operators")
                return operators.apply_operator(name, self, other)
            return theirs(self, other)

        return method

    return wrap


when_imported("scipy.sparse", _install)
