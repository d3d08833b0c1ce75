"""Shims of Python's `type`, `hasattr` and `getattr` for code that sees tracked values.

Plain code asks `type(x) is np.ndarray` or `hasattr(x, "__iter__")`, and takes another way for what
it does not know. Of a tracked value the shims answer as for its data, as `isinstance` does. They
are put into the globals of user code that uses the names, in front of Python's own: by the exchange
within a derivative (`namespaces.py`), by the compiler within a trace.

Invariant: for anything but a tracked value, in any thread, a shim does what the builtin does.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from tracker.tape.record import value_of
from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracked import Tracked


class _TypeShim(type):
    """The class of the shim of `type`, which compares and tests like that."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _type_shim:
            return super().__call__(*args, **kwargs)
        made = type(*map(plain_value, args[:1]), *args[1:], **kwargs)
        return _type_shim if made in (type, _TypeShim) else made

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type if cls is _type_shim else cls)

    def __subclasscheck__(cls, x: type) -> bool:
        return issubclass(x, type) if cls is _type_shim else super().__subclasscheck__(x)


_type_shim = _TypeShim("type", (type,), {})


def _hasattr(x: Any, name: str, /) -> bool:
    return builtins.hasattr(plain_value(x), name)


def _getattr(x: Any, name: str, /, *default: Any) -> Any:
    plain = plain_value(x)
    return builtins.getattr(x if builtins.hasattr(plain, name) else plain, name, *default)


CLASS_SHIMS: Mapping[str, Any] = {"type": _type_shim, "hasattr": _hasattr, "getattr": _getattr}
# All that may stand in globals in front of Python's own; the compiler adds its shims.
KNOWN_SHIMS: dict[str, Any] = {**CLASS_SHIMS}


def plain_value(x: Any) -> Any:
    """Data of the class and type that a tracked value stands for; anything else unchanged."""
    if type(x) is not Tracked:
        return x
    x = resolve_placeholder(x)
    return value_of(x).aval if type(x) is Tracked else x


def is_shim(name: str, x: Any) -> bool:
    """Whether a name in globals is bound to its shim."""
    return name in KNOWN_SHIMS and KNOWN_SHIMS[name] is x
