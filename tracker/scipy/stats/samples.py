"""SciPy's own statistics that describe and compare samples: moments, means, directions, t-tests,
analysis of variance, distances. `axis=None` takes all elements; `nan_policy=` other than
"propagate", `keepdims=` and permutation methods are refused."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats

from tracker.ops.shape.create import buffer
from tracker.scipy import special  # noqa: F401 (whose functions are used)
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.scipy._bridge.scipy_source import Rebinding

_USUAL = {"nan_policy": "propagate", "keepdims": False, "method": None, "trim": 0}


def _prepare(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the decorator of SciPy's that treats NaN and axes."""
    theirs = getattr(scipy.stats, name)
    signature, own = inspect.signature(theirs), inspect.signature(inspect.unwrap(theirs))
    is_decorated = signature != own  # else it treats axis=None itself
    has_axis = is_decorated and "axis" in own.parameters
    usual_axis = signature.parameters["axis"].default if has_axis else 0
    first = next(iter(signature.parameters))
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    variadic = next(
        (n for n, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL), None
    )

    @functools.wraps(run)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        given = bound.arguments
        for option, usual in _USUAL.items():
            if given.pop(option, usual) != usual:
                raise no_derivative_rule(f"scipy.stats.{name} with {option}=", "Leave it out")
        given |= {key: _as_samples(x, key == variadic) for key, x in given.items()}
        axis = given.get("axis", usual_axis)
        if name in ("energy_distance", "wasserstein_distance"):  # which use arrays' methods
            given |= {key: buffer(as_array(x) * 1.0) for key, x in given.items() if x is not None}
        try:
            if has_axis:
                for key, x in given.items():
                    if key == variadic:
                        given[key] = tuple([_along_last(sample, axis) for sample in x])
                    elif key == first or np.ndim(x) > 1:
                        given[key] = _along_last(x, axis)
                given["axis"] = -1
            return run(*bound.args, **bound.kwargs)
        except ValueError:
            scipy_raises_unless(False, theirs, *args, **kwargs)
            raise

    return call


def _as_samples(x: Any, are_many: bool) -> Any:
    """An argument, with arrays for lists of tracked values, as SciPy's decorator has them. SciPy
    writes tracked values into what it computes from plain arrays."""
    if are_many:
        return tuple(map(as_array, x))
    if type(x) in (list, tuple) and is_tracked(x):
        return as_array(x)
    return buffer(x * 1.0) if type(x) is np.ndarray and x.dtype.kind in "biufc" else x


def _along_last(x: Any, axis: Any) -> Any:
    x = as_array(x)
    return np.ravel(x) if axis is None else np.moveaxis(x, axis, -1)


def _one_sample_test(*args: Any, _no_deco: bool = True, **kwargs: Any) -> Any:
    return _REBINDING.of(inspect.unwrap(scipy.stats.ttest_1samp))(*args, **kwargs)


class _Distributions:
    """This package's distributions."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tracker.scipy.stats"), name)


_REBINDING = Rebinding({"ttest_1samp": _one_sample_test, "distributions": _Distributions()})
_REBINDING.drop_in(
    scipy.stats,
    """
    bartlett chisquare circmean circstd circvar cumfreq differential_entropy energy_distance entropy
    expectile f_oneway gmean gstd gzscore hmean kstat levene linregress median_abs_deviation moment
    pmean relfreq sem ttest_1samp ttest_ind ttest_rel variation wasserstein_distance yeojohnson
    """,
    _prepare,
)
