"""Errors of conversions and stores that would lose a gradient.

Each message names the call that was made, the value, and the one thing to type instead. A call is
found by its frame (`support/frames/call_names.py`); what stands for a function of NumPy or SciPy is
looked up by its name.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.config import current
from tracker.errors import ConversionError, message
from tracker.support.frames.call_names import STORING, Call, running_call
from tracker.tape.record import aval_of, holds_tracked
from tracker.user_frames import INSTALLED, line_of, user_call

STORE_HINT = "Make the array with np.zeros_like(t), np.zeros(n, like=t), or np.array(a)"
_PLAIN = "Use tracker.data(t) where no gradient is wanted"
_NUMBER_HINT = "Use t itself, or tracker.data(t) where no gradient is wanted"
_LABELS_HINT = (
    "Use operators: s * t and df @ t are tracked arrays; join columns with np.stack([...], axis=1)"
)
_SPARSE_HINT = (
    "Make the array of its entries: coo_array((t, (i, j)), shape) or csr_array((t, a.indices, "
    "a.indptr), a.shape)"
)
_OTHER_NAMES = {  # of functions of `math`
    "comb": "scipy.special.comb",
    "dist": "np.linalg.norm",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "fsum": "np.sum",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
    "phase": "np.angle",
    "sumprod": "np.dot",
}
RULE_HINTS = {  # by the library that asks for plain numbers
    "ctypes": "Give the function in C a derivative: @tracker.custom_gradient(host=True)",
    "torch": "Give the function of PyTorch its derivative: tracker.interop.from_torch(f)",
}
_SYSTEM_HINT = (
    "Give the numbers themselves to functions of linear systems: scipy.signal.step((num, den))"
)
_STEPPED_HINT = "Use scipy.integrate.solve_ivp, whose solution is differentiable"
_QHULL_HINT = (
    "Give it tracker.data(points), and compute with the points that it names: points[hull.vertices]"
)
_FIELDS_HINT = "Keep one array for each field, in a dict, a named tuple or a dataclass"
_HINTS = {  # by the beginning of the call's name
    "float": _NUMBER_HINT,
    "complex": _NUMBER_HINT,
    "numpy.ma.": "Keep the mask beside the array: np.where(mask, 0.0, t), np.sum(t, where=~mask)",
    "numpy.random.Generator": "Draw from tracker.numpy.random.default_rng",
    "numpy.random.RandomState": "Draw from tracker.numpy.random.RandomState",
    "pandas.": _LABELS_HINT,
    "xarray.": _LABELS_HINT,
    "jax.": "Give the function of JAX its derivative: tracker.interop.from_jax(f)",
    "torch.": RULE_HINTS["torch"],
    "tracker.optim.minimize": "Use scipy.optimize.minimize or tracker.optim.lbfgs, which have "
    "derivatives",
    **dict.fromkeys(
        (
            *("scipy.signal.lti", "scipy.signal.dlti", "scipy.signal.StateSpace"),
            *("scipy.signal.TransferFunction", "scipy.signal.ZerosPolesGain"),
        ),
        _SYSTEM_HINT,
    ),
    **dict.fromkeys(
        (
            *("scipy.integrate.ode.", "scipy.integrate.complex_ode", "scipy.integrate.RK"),
            *("scipy.integrate.DOP853", "scipy.integrate.Radau", "scipy.integrate.BDF"),
            "scipy.integrate.LSODA",
        ),
        _STEPPED_HINT,
    ),
    **dict.fromkeys(("scipy.spatial.ConvexHull", "scipy.spatial.Voronoi"), _QHULL_HINT),
    "numpy.rec.": _FIELDS_HINT,
}


def conversion_text(tracked: Any, converter: str) -> Callable[[], str]:
    """Why a tracked value is not converted, composed when called; `converter` names the conversion,
    where nothing more is known: "float(t)"."""
    call, where = _running_call()
    layout = _layout(aval_of(tracked))
    return lambda: _conversion_text(call, layout, converter, where)


def _conversion_text(call: Call, layout: _Layout, converter: str, where: str) -> str:
    name = call.name
    if name.endswith("= t") or name.rpartition(".")[2] in STORING:
        return _store_text(name, layout, call.target, where)
    if "." not in name:  # Python's own: `list` of a `map`
        name = converter
    return message(
        f"{name} would turn a tracked value {_described(layout)} into plain numbers and lose "
        "its gradient",
        RULE_HINTS.get(converter) or _instead(name),
        where,
    )


def store_error(value: Any, target: Any, name: str) -> ConversionError:
    """The error for a store into a plain array by a function of NumPy; `name` names it where its
    call is not found."""
    call, where = _running_call()
    while isinstance(value, (list, tuple)):
        value = next(x for x in value if holds_tracked(x))
    layout = _layout(aval_of(value))
    return ConversionError(_store_text(call.name or name, layout, target, where))


def refused_store(call: Call, value: Any, where: str) -> ConversionError:
    """The error for a store of a tracked value by a call whose line is `where`."""
    return ConversionError(_store_text(call.name, _layout(aval_of(value)), call.target, where))


def _store_text(name: str, layout: _Layout, target: Any, where: str) -> str:
    array = "a plain array"
    if isinstance(target, np.ndarray):
        array = f"{array} {_described(_layout(target))}"
    if name.startswith("scipy.sparse."):
        hint = _instead(name)
    else:
        hint = _FIELDS_HINT if _has_fields(target) else _package_hint(name) or STORE_HINT
    return message(
        f"{name} would store a tracked value {_described(layout)} into {array} and lose its "
        "gradient",
        hint,
        where,
    )


def _has_fields(array: Any) -> bool:
    """Whether an array is, or views, a field of a structured array."""
    while isinstance(array, np.ndarray):
        if array.dtype.names:
            return True
        array = array.base
    return False


def _running_call() -> tuple[Call, str]:
    """The call that the user's code is executing, and its line."""
    frame, libraries = user_call()
    if frame is None:
        return Call(""), ""
    return running_call(frame, libraries), line_of(frame)


_Layout = tuple[tuple[int, ...], np.dtype[Any]]  # what an error keeps of an array


def _layout(x: Any) -> _Layout:
    return np.shape(x), np.result_type(x)


def _described(layout: _Layout) -> str:
    return "of shape {}, dtype {}".format(*layout)


def _instead(name: str) -> str:
    """What to type instead of a call."""
    owner, _, function = name.rpartition(".")
    package = name.partition(".")[0]
    for beginning, hint in _HINTS.items():
        if name.startswith(beginning):
            return hint
    if owner in ("math", "cmath"):
        theirs = _OTHER_NAMES.get(function, f"np.{function}")
        return f"Use {theirs}" if theirs[:3] != "np." or _found(f"numpy.{theirs[3:]}") else _PLAIN
    is_of_variable = package not in sys.modules and hasattr(np.ndarray, function)  # `A.T.dot`
    if (owner == "numpy.ndarray" or is_of_variable) and hasattr(np, function):
        return f"Use np.{function}"
    if owner == "numpy" and function in np.sctypeDict:
        return f"Use t.astype(np.{function})"
    if owner.startswith("scipy.sparse.") and isinstance(_found(owner), type):
        return _SPARSE_HINT
    if package in ("numpy", "scipy"):
        if _follows(name):
            return f"Use tracker.{name}"
        public, is_private, _ = name.partition("._")
        return f"Use tracker.{public}" if is_private else _PLAIN
    holder = _found(owner)
    if isinstance(holder, type) and hasattr(holder, "to_numpy"):
        return f"Use its .to_numpy(), as a {holder.__name__} holds plain numbers"
    return _package_hint(name) or _PLAIN


def _package_hint(name: str) -> str:
    """What to type for a call of an installed package in Python; "" for any other."""
    package = name.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    followed = current().plain or frozenset()
    if package in {"numpy", "scipy", *followed} or name.startswith(tuple(_HINTS)):
        return ""
    if not (file.endswith(".py") and INSTALLED.search(file)):
        return ""
    packages = (*sorted(followed), package)
    return f"tracker.config(plain={packages!r}) has its code count as yours. {_PLAIN}"


def _split(name: str) -> tuple[str, list[str]]:
    """The imported module that a dotted name begins with, and the attributes that follow."""
    parts = name.split(".")
    count = len(parts)
    while count and ".".join(parts[:count]) not in sys.modules:
        count -= 1
    return ".".join(parts[:count]), parts[count:]


def _found(name: str) -> Any:
    """What has a dotted name; None if nothing has."""
    module, path = _split(name)
    return functools.reduce(lambda x, part: getattr(x, part, None), path, sys.modules.get(module))


def _follows(name: str) -> bool:
    """Whether a function of NumPy or SciPy has a drop-in that follows tracked values."""
    module, path = _split(name)
    if f"tracker.{module}" not in sys.modules:
        try:
            importlib.import_module(f"tracker.{module}")
        except ImportError:
            return False
    first, dropin = f"{module}.{path[0]}", _found(f"tracker.{name}")
    is_own = _found(f"tracker.{first}") is not _found(first)
    return is_own and dropin is not None and not getattr(dropin, "refuses_tracked", False)
