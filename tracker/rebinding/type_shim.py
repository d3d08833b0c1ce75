"""The shim of Python's `type` for code that sees tracked values.

Plain code asks `type(x) is np.ndarray` or `type(x) in (int, float)`, and takes another way where it
does not know the class. Of a tracked value the shim gives the class of its data, as `isinstance`
does. It is put into the globals of user code that uses the name, in front of Python's own: by the
exchange within a derivative (`namespaces.py`), by the compiler within a trace.

Invariant: for anything but a tracked value, in any thread, the shim does what `type` does.
"""

from __future__ import annotations

from typing import Any

from tracker.tape.tracing.placeholders import resolve_placeholder
from tracker.tape.tracked import Tracked


class _TypeShim(type):
    """The class of `type_shim`, which compares and tests like Python's `type`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not type_shim:
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and type(args[0]) is Tracked:
            return resolve_placeholder(args[0]).__class__
        made = type(*args, **kwargs)
        return type_shim if made in (type, _TypeShim) else made

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type if cls is type_shim else cls)

    def __subclasscheck__(cls, x: type) -> bool:
        return issubclass(x, type) if cls is type_shim else super().__subclasscheck__(x)


type_shim = _TypeShim("type", (type,), {})
