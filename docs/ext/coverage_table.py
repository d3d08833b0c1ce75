"""Every public name of NumPy's and SciPy's namespaces, and what becomes of it when it is given
tracked values: the rows of the page on coverage.

What a function does is read from the registry of the package (`NUMPY`, `UFUNCS`,
`NONDIFFERENTIABLE`, `UNSUPPORTED`); names that NumPy does not let anybody intercept are sorted by
what they are. A name that fits nowhere is `UNACCOUNTED`, which a test forbids.
"""

from __future__ import annotations

import importlib
import importlib.util
import types
from typing import Any

import numpy as np
import scipy.special

import tracker.scipy.special
from tracker.ir.op import NONDIFFERENTIABLE, NUMPY, OPS, UFUNCS, UNSUPPORTED
from tracker.ops import special  # noqa: F401  (enters SciPy's ufuncs in the registry)
from tracker.scipy import SUBMODULES
from tracker.scipy._bridge.callback import NONDIFFERENTIABLE as SCIPY_CONSTANTS

UNACCOUNTED = "unaccounted for"
NO_RULE = "no derivative rule: raises UnsupportedError that names it"

# Functions that NumPy does not hand over to tracked values: each with what to do.
MAKES = "makes a plain array from plain numbers"
CONVERTS = "NumPy converts its arguments: raises ConversionError; tracker.numpy has it"
WRAPS = "what it made before raises UnsupportedError that names np.vectorize"
ASKS = "answers a question about dtypes, shapes or settings"
READS = "reads plain numbers from elsewhere"
SHOWS = "writes a plain number as text"
NOT_INTERCEPTED = {
    MAKES: "bartlett blackman hamming hanning diag_indices indices mask_indices tri "
    "tril_indices triu_indices fromfunction fftfreq rfftfreq",
    CONVERTS: "asarray_chkfinite asfortranarray asmatrix bmat row_stack vectorize "
    "require c_ r_ mgrid ogrid fromiter kaiser",
    WRAPS: "frompyfunc",
    ASKS: "broadcast_shapes datetime_data finfo iinfo info isdtype isfortran isscalar issubdtype "
    "iterable mintypecode promote_types get_include get_printoptions getbufsize geterr geterrcall "
    "set_printoptions setbufsize seterr seterrcall errstate printoptions show_config show_runtime "
    "test nested_iters nditer ndenumerate ndindex flatiter broadcast index_exp s_ typename",
    READS: "from_dlpack frombuffer fromfile fromregex fromstring genfromtxt load loadtxt",
    SHOWS: "base_repr binary_repr format_float_positional format_float_scientific",
}
# Constructors: NumPy hands them over when told what the result is to be like.
LIKE = {np.array, np.asarray, np.asanyarray, np.ascontiguousarray}
LIKE |= {np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.arange}
REASONS = {name: why for why, names in NOT_INTERCEPTED.items() for name in names.split()}
SPACES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
OWN_SCIPY = {
    name: (
        importlib.import_module(f"tracker.scipy.{name}"),
        importlib.import_module(f"scipy.{name}"),
    )
    for name in SUBMODULES
    if name != "special"
}


def public(space: Any) -> list[str]:
    """The public names, without the submodules."""
    names = (n for n in dir(space) if not n.startswith("_"))
    return sorted(n for n in names if not isinstance(getattr(space, n), types.ModuleType))


def _handled(thing: Any) -> tuple[str, str] | None:
    if thing in UNSUPPORTED:
        return "refused", UNSUPPORTED[thing]
    op = UFUNCS.get(thing) if isinstance(thing, np.ufunc) else None
    if thing in NONDIFFERENTIABLE or (op is not None and op.constant):
        return "constant", "passes through untracked"
    if thing in LIKE:
        return "differentiable", "with `like=t`, or from `tracker.numpy`"
    if thing in NUMPY or op is not None:
        return "differentiable", ""
    return None


def classify(name: str, thing: Any) -> tuple[str, str]:
    """(differentiable, constant, refused, or not a function of arrays; why) of a public name."""
    if name in REASONS:
        return ("refused" if REASONS[name] is CONVERTS else "constant"), REASONS[name]
    return _known(thing) or (UNACCOUNTED, "")


def _known(thing: Any) -> tuple[str, str] | None:
    """What the object itself says."""
    if isinstance(thing, type):
        return "not a function", "a class"
    if not callable(thing):
        return "not a function", "a constant"
    return _handled(thing)


def classify_special(name: str, thing: Any) -> tuple[str, str]:
    """The same for scipy.special."""
    known = _known(thing)
    if known is not None:
        return known
    if name in tracker.scipy.special.ACCEPT_TRACKED:
        return "differentiable", "in its array argument; it ends in ufuncs"
    if name in vars(tracker.scipy.special):
        return "differentiable", "from `tracker.scipy.special`"
    return "refused", NO_RULE


def classify_scipys(module: types.ModuleType, name: str, thing: Any) -> tuple[str, str]:
    """The same for a name of another module of SciPy's, by the module that stands in for it."""
    here = getattr(module, name)
    if name in vars(module) and here is not thing:
        return "differentiable", f"from `{module.__name__}`"
    if callable(here) and here in SCIPY_CONSTANTS:
        return "constant", "passes through untracked"
    if here is not thing:
        return "refused", NO_RULE
    if isinstance(thing, type):
        return "not a function", "a class: SciPy's own"
    return "not a function", "a constant"


def rows() -> dict[str, list[tuple[str, str, str]]]:
    """Of every namespace: (name, status, reason), sorted by name."""
    out = {
        title: [(n, *classify(n, getattr(space, n))) for n in public(space)]
        for title, space in SPACES.items()
    }
    out["scipy.special"] = [
        (n, *classify_special(n, getattr(scipy.special, n))) for n in public(scipy.special)
    ]
    for name, (own, theirs) in OWN_SCIPY.items():
        out[f"scipy.{name}"] = [
            (n, *classify_scipys(own, n, getattr(theirs, n))) for n in public(theirs)
        ]
    return out


# In JAX -------------------------------------------------------------------------------------------

HAS_JAX = importlib.util.find_spec("jax") is not None
COMPOSED = "by its ops"


def in_jax(space: str, name: str) -> str:
    """Whether `to_jax` runs a function: "yes", "no", or that it is composed of other ops."""
    from tracker.interop.replay import has_rule

    thing = getattr(importlib.import_module(space), name)
    op = UFUNCS.get(thing) if isinstance(thing, np.ufunc) else None
    if op is None:
        owners = (op for op in OPS.values() if thing in op.numpy or op.evaluate is thing)
        op = next(owners, OPS.get(name) if space in SPACES else None)
    return COMPOSED if op is None else "yes" if has_rule(op) else "no"


def ops_without_rule() -> list[str]:
    """The names of the ops that `to_jax` refuses."""
    from tracker.interop.replay import has_rule

    return sorted(op.name for op in OPS.values() if not has_rule(op))
