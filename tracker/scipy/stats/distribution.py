"""Univariate distributions: the formulas of the standard form (loc 0, scale 1), shifted and
scaled.

The formulas are SciPy's methods (`_logpdf`, `_cdf`, `_stats`, ...), rebound, except those in
`formulas.py`; what SciPy integrates or sums numerically is refused. Outside of the support
densities and their gradients are 0: the formulas are evaluated at an interior point there. Calls
without tracked values go to SciPy.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats
from scipy.stats._distn_infrastructure import rv_generic

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.errors import ConversionError, UnsupportedError
from tracker.scipy._bridge.callback import call_scipy
from tracker.scipy._bridge.checks import scipy_raises_unless
from tracker.scipy._bridge.classes import forwarded
from tracker.scipy._bridge.fallback import as_array, is_tracked, no_derivative_rule
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.stats.formulas import FORMULAS, NAMES
from tracker.support.pickling import named
from tracker.tape.observers import is_tracing
from tracker.tape.record import aval_of

Formula = Callable[..., Any]
Method = Callable[..., Any]
# Methods of these classes integrate and search numerically.
_GENERIC = (scipy.stats.rv_continuous, scipy.stats.rv_discrete, rv_generic)
_REBINDING = Rebinding(instances_of=_GENERIC)
_OPPOSITE = {"cdf": "sf", "sf": "cdf"}


def scipy_if_plain(method: Method) -> Method:
    """Decorator: calls without tracked arguments go to SciPy's method of the same name."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_tracked(*args, *kwargs.values()):
            return method(self, *args, **kwargs)
        return getattr(self.scipy, method.__name__)(*args, **kwargs)

    return call


class NamedDistribution:
    """A distribution of SciPy's by name; its methods that a subclass does not define are SciPy's
    and refuse tracked values."""

    def __init__(self, name: str) -> None:
        self.scipy, self.name = getattr(scipy.stats, name), name

    def __reduce__(self) -> Any:
        return named, ("tracker.scipy.stats", self.name)

    def __getattr__(self, name: str) -> Any:
        if name in ("scipy", "name", "formulas"):
            raise AttributeError(name)
        found = getattr(self.scipy, name)
        title = f"scipy.stats.{self.name}.{name}"
        return found if name.startswith("_") else forwarded(found, title)


class Distribution(NamedDistribution):
    """A univariate distribution with SciPy's methods."""

    is_discrete = False
    density = "pdf"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        shapes = [part.strip() for part in (self.scipy.shapes or "").split(",")]
        self.shape_names = tuple(part for part in shapes if part)
        self.formulas = FORMULAS.get(name, {})

    @functools.cached_property
    def _theirs(self) -> Any:
        return _REBINDING.of(self.scipy)

    def formula(self, name: str) -> Formula | None:
        """The function of (x, *shapes), or of (q, *shapes) for ppf and isf; None if there is no
        closed form."""
        if name in self.formulas or self.name not in NAMES:
            return self.formulas.get(name)
        for cls in type(self.scipy).__mro__:
            if f"_{name}" in vars(cls):
                return None if cls in _GENERIC else getattr(self._theirs, f"_{name}")
        return None

    def _compute(self, name: str, *args: Any) -> Any:
        """The value of a formula, or of others that it follows from."""
        try:
            return self._follow(name, args)
        except (UnsupportedError, ConversionError) as error:
            raise no_derivative_rule(f"scipy.stats.{self.name}.{name}") from error

    def _follow(self, name: str, args: Any) -> Any:
        log = self.formula(f"log{self.density}")
        if name == self.density and log is not None:
            return np.exp(log(*args))
        formula = self.formula(name)
        if formula is not None:
            return formula(*args)
        if name.startswith("log"):
            with np.errstate(divide="ignore"):
                return np.log(self._follow(name[3:], args))
        formula = self.formula(_OPPOSITE.get(name, ""))
        if formula is None:
            raise no_derivative_rule(f"scipy.stats.{self.name}.{name}")
        return 1 - formula(*args)

    def _support(self, shapes: Any) -> Any:
        ends = self._theirs._get_support(*shapes)
        return tuple(float(end) if type(end) is int else end for end in ends)

    def _valid(self, shapes: Any) -> Any:
        """Whether the shapes are admissible."""
        if type(self.scipy)._argcheck is not rv_generic._argcheck:
            return self._theirs._argcheck(*shapes)
        valid: Any = True
        for shape in shapes:
            valid = valid & (shape > 0)
        return valid

    def __call__(self, *args: Any, **kwargs: Any) -> FrozenDistribution:
        return FrozenDistribution(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<tracker.scipy.stats.{self.name}>"

    def _split_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, Any]:
        """The shapes, loc and scale."""
        names = (
            (*self.shape_names, "loc") if self.is_discrete else (*self.shape_names, "loc", "scale")
        )
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or given.keys() & kwargs.keys() or kwargs.keys() - set(names):
            raise TypeError(f"{self.name} takes the arguments {', '.join(names)}")
        given |= kwargs
        missing = [name for name in self.shape_names if name not in given]
        if missing:
            raise TypeError(f"{self.name} needs the argument {missing[0]}")
        shapes = [as_array(given[name]) for name in self.shape_names]
        return shapes, given.get("loc", 0), given.get("scale", 1)

    def _standardize(self, x: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The standard variable (an interior point where it is outside the support), where it is
        below and above the support, shapes, scale, and whether the parameters are valid."""
        shapes, loc, scale = self._split_arguments(args, kwargs)
        z = _as_float64((as_array(x) - as_array(loc)) / as_array(scale))
        low, high = self._support(shapes)
        below, above = self._outside(z, low, high)
        valid = (as_array(scale) > 0) & self._valid(shapes)
        out = below | above
        if out is not False:
            z = np.where(out, self._safe_point(low, high), z)
        return z, below, above, shapes, as_array(scale), valid

    def _outside(self, z: Any, low: Any, high: Any) -> tuple[Any, Any]:
        unbounded = isinstance(low, float) and low == -math.inf
        limitless = isinstance(high, float) and high == math.inf
        return (False if unbounded else z < low), (False if limitless else z > high)

    def _safe_point(self, low: Any, high: Any) -> Any:
        """A point inside the support."""
        if isinstance(low, float) and isinstance(high, float):
            return _interior_point(low, high)
        low, high = ignore_derivatives((low, high))
        with np.errstate(invalid="ignore"):
            inside = np.where(np.isinf(high), low + 1.0, (low + high) / 2)
        return np.where(np.isinf(low), np.where(np.isinf(high), 0.5, high - 1.0), inside)

    def _density(self, x: Any, args: Any, kwargs: Any, log: bool) -> Any:
        z, below, above, shapes, scale, valid = self._standardize(x, args, kwargs)
        name, outside = (f"log{self.density}", -math.inf) if log else (self.density, 0.0)
        out = self._compute(name, z, *shapes)
        if not self.is_discrete:
            out = out - np.log(scale) if log else out / scale
        return _select(valid, below | above, outside, out)

    def _probability(self, x: Any, args: Any, kwargs: Any, name: str) -> Any:
        """cdf, sf, or the logarithm of one."""
        z, below, above, shapes, _, valid = self._standardize(x, args, kwargs)
        none, all = (-math.inf, 0.0) if name.startswith("log") else (0.0, 1.0)
        low, high = (all, none) if name.endswith("sf") else (none, all)
        out = _select(True, below, low, self._compute(name, z, *shapes))
        return _select(valid, above, high, out)

    def _moment(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any, Any, Any]:
        """The mean, variance or entropy of the standard form; loc, scale, and whether the
        parameters are valid."""
        shapes, loc, scale = self._split_arguments(args, kwargs)
        try:
            found = self._standard_moment(name, shapes)
        except (UnsupportedError, ConversionError) as error:
            raise no_derivative_rule(f"scipy.stats.{self.name}.{name}") from error
        loc, scale = as_array(loc), as_array(scale)
        return found, loc, scale, (scale > 0) & (loc == loc) & self._valid(shapes)

    def _standard_moment(self, name: str, shapes: Any) -> Any:
        formula = self.formula(name)
        if formula is not None:
            return formula(*shapes)
        stats, raw = self.formula("stats"), self.formula("munp")
        if name != "entropy" and stats is not None:
            known = inspect.signature(stats).parameters
            given = {"moments": "mv"} if "moments" in known else {}
            with np.errstate(all="ignore"):
                found = stats(*shapes, **given)[("mean", "var").index(name)]
            if found is not None:
                return found
        if name == "entropy" or raw is None:
            raise no_derivative_rule(f"scipy.stats.{self.name}.{name}")
        first = raw(1, *shapes)
        return first if name == "mean" else raw(2, *shapes) - first * first

    @scipy_if_plain
    def mean(self, *args: Any, **kwargs: Any) -> Any:
        found, loc, scale, valid = self._moment("mean", args, kwargs)
        return _select(valid, False, 0.0, found * scale + loc)

    @scipy_if_plain
    def var(self, *args: Any, **kwargs: Any) -> Any:
        found, _, scale, valid = self._moment("var", args, kwargs)
        return _select(valid, False, 0.0, found * scale * scale)

    @scipy_if_plain
    def std(self, *args: Any, **kwargs: Any) -> Any:
        return np.sqrt(self.var(*args, **kwargs))

    @scipy_if_plain
    def entropy(self, *args: Any, **kwargs: Any) -> Any:
        found, _, scale, valid = self._moment("entropy", args, kwargs)
        return _select(valid, False, 0.0, found if self.is_discrete else found + np.log(scale))

    @scipy_if_plain
    def stats(self, *args: Any, moments: str = "mv", **kwargs: Any) -> Any:
        known = {"m": self.mean, "v": self.var}
        if set(moments) - known.keys():
            raise no_derivative_rule(
                f"scipy.stats.{self.name}.stats(moments={moments!r})", "Ask for 'mv'"
            )
        found = tuple(known[m](*args, **kwargs) for m in moments)
        return found if len(found) != 1 else found[0]

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwargs: Any) -> Any:
        """Differentiable in loc and scale: SciPy's standard numbers, scaled and shifted."""
        keywords = {"size": size, "random_state": random_state}
        given = {name: value for name, value in keywords.items() if value is not None}
        if not is_tracked(*args, *kwargs.values()):
            return self.scipy.rvs(*args, **given, **kwargs)
        shapes, loc, scale = self._split_arguments(args, kwargs)
        if is_tracked(*shapes) or is_tracing():
            what = "compiled" if is_tracing() else f"of tracked {', '.join(self.shape_names)}"
            text = "Draw q = rng.uniform(size=n) outside of what is differentiated, and take ppf(q)"
            raise no_derivative_rule(f"scipy.stats.{self.name}.rvs {what}", text)
        if size is None:
            given["size"] = np.broadcast_shapes(*map(np.shape, (*shapes, loc, scale)))
        return self.scipy.rvs(*shapes, **given) * as_array(scale) + as_array(loc)

    @scipy_if_plain
    def cdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self._probability(x, args, kwargs, "cdf")

    @scipy_if_plain
    def sf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self._probability(x, args, kwargs, "sf")

    @scipy_if_plain
    def logcdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self._probability(x, args, kwargs, "logcdf")

    @scipy_if_plain
    def logsf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self._probability(x, args, kwargs, "logsf")


class ContinuousDistribution(Distribution):
    """A distribution with a density."""

    @scipy_if_plain
    def logpdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self._density(x, args, kwargs, log=True)

    @scipy_if_plain
    def pdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return self._density(x, args, kwargs, log=False)

    @scipy_if_plain
    def ppf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        return self._quantile(q, args, kwargs, upper=False)

    @scipy_if_plain
    def isf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        return self._quantile(q, args, kwargs, upper=True)

    def _quantile(self, q: Any, args: Any, kwargs: Any, upper: bool) -> Any:
        shapes, loc, scale = self._split_arguments(args, kwargs)
        q = _as_float64(as_array(q))
        inside = (q > 0) & (q < 1)
        safe = np.where(inside, q, 0.5)
        out = self._standard_quantile(safe, shapes, upper)
        low, high = self._support(shapes)
        at_zero, at_one = (high, low) if upper else (low, high)
        edge = np.where(q == 0, at_zero, np.where(q == 1, at_one, math.nan))
        loc, scale = as_array(loc), as_array(scale)
        valid = (scale > 0) & self._valid(shapes)
        return _select(valid, np.logical_not(inside), edge * scale + loc, out * scale + loc)

    def _standard_quantile(self, q: Any, shapes: list[Any], upper: bool) -> Any:
        isf, ppf = self.formula("isf"), self.formula("ppf")
        if upper and isf is not None:
            return isf(q, *shapes)
        if ppf is not None:
            return ppf(1 - q if upper else q, *shapes)
        return self._newton_quantile(q, shapes, upper)

    def _newton_quantile(self, q: Any, shapes: list[Any], upper: bool) -> Any:
        """SciPy's quantile; two Newton steps carry its derivatives."""
        sign, name, share = (-1.0, "isf", "sf") if upper else (1.0, "ppf", "cdf")
        x = call_scipy(getattr(self.scipy, name), q, *shapes)
        for _ in range(2):
            off = self._compute(share, x, *shapes) - q
            step = sign * off * np.exp(-self._compute("logpdf", x, *shapes))
            x = x - step + ignore_derivatives(step)
        return x

    def median(self, *args: Any, **kwargs: Any) -> Any:
        return self.ppf(0.5, *args, **kwargs)

    def interval(self, confidence: Any, *args: Any, **kwargs: Any) -> Any:
        fine = np.all((confidence >= 0) & (confidence <= 1))
        scipy_raises_unless(fine, self.scipy.interval, confidence, *args, **kwargs)
        ends = (1 - confidence) / 2, (1 + confidence) / 2
        return tuple(self.ppf(end, *args, **kwargs) for end in ends)


def _by_scipy(name: str) -> Method:
    """A method whose results are whole numbers, without a derivative."""
    return lambda self, *args, **kwargs: call_scipy(getattr(self.scipy, name), *args, **kwargs)


class DiscreteDistribution(Distribution):
    """A distribution on whole numbers, shifted by loc; elsewhere the probability is 0."""

    is_discrete, density = True, "pmf"

    ppf, isf, median, interval = map(_by_scipy, ("ppf", "isf", "median", "interval"))

    def _safe_point(self, low: Any, high: Any) -> Any:
        return (0.0 if low == -math.inf else low) if isinstance(low, float) else low

    @scipy_if_plain
    def logpmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        return self._of_counts(k, args, kwargs, log=True)

    @scipy_if_plain
    def pmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        return self._of_counts(k, args, kwargs, log=False)

    def _of_counts(self, k: Any, args: Any, kwargs: Any, log: bool) -> Any:
        z = as_array(k) - as_array(self._split_arguments(args, kwargs)[1])
        out = self._density(k, args, kwargs, log)
        return _as_scalar(np.where(z == np.floor(z), out, -math.inf if log else 0.0))

    def _probability(self, x: Any, args: Any, kwargs: Any, name: str) -> Any:
        counts, shapes = self._floor(x, args, kwargs)
        return super()._probability(counts, shapes, {}, name)

    def _floor(self, x: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
        """The counts number at or below the standard variable, and the shapes."""
        shapes, loc, _ = self._split_arguments(args, kwargs)
        return np.floor(as_array(x) - as_array(loc)), shapes


class FrozenDistribution:
    """A distribution with fixed parameters: `norm(mean, deviation).logpdf(x)`."""

    def __init__(self, dist: Distribution, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwargs

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        return self.dist.rvs(*self.args, size=size, random_state=random_state, **self.kwds)

    def stats(self, moments: str = "mv") -> Any:
        return self.dist.stats(*self.args, moments=moments, **self.kwds)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("dist", "args", "kwds"):
            raise AttributeError(name)
        if hasattr(type(self.dist), name):
            method = getattr(self.dist, name)
            return lambda *xs, **more: method(*xs, *self.args, **self.kwds, **more)
        if is_tracked(*self.args, *self.kwds.values()):
            raise no_derivative_rule(f"scipy.stats.{self.dist.name}(...).{name}")
        return getattr(self.dist.scipy(*self.args, **self.kwds), name)


def _interior_point(low: float, high: float) -> float:
    if low == -math.inf:
        return 0.5 if high == math.inf else high - 1.0
    return low + 1.0 if high == math.inf else (low + high) / 2


def _as_float64(x: Any) -> Any:
    """SciPy's distributions return double precision for any input."""
    return x if x.dtype.itemsize > 4 and x.dtype.kind == "f" else np.astype(x, np.float64)


def _select(valid: Any, replaced: Any, by: Any, value: Any) -> Any:
    """`by` where replaced, NaN where the parameters are invalid."""
    if replaced is not False:
        value = np.where(replaced, by, value)
    if not (isinstance(valid, (bool, np.bool_)) and valid):
        value = np.where(valid, value, math.nan)
    return _as_scalar(_as_float64(as_array(value)))


def _as_scalar(x: Any) -> Any:
    """A NumPy number instead of an array without axes, as SciPy's distributions return it."""
    return x[()] if isinstance(aval_of(x), np.ndarray) and not np.ndim(x) else x
