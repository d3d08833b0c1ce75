"""`scipy.special` on tracked values. Its ufuncs need nothing (see `tracker/ops/special/`); here are
its Python functions, which convert their arguments. What is not defined here is SciPy's own.

Spherical harmonics are in `_harmonics.py`.

Owns: logsumexp and softmax, which never overflow; polygamma, multigammaln, comb, factorial, perm,
spherical Bessel functions, softplus, sinc, diric.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from tracker.cuts import ignore_derivatives
from tracker.errors import UnsupportedError, message
from tracker.ops.entries import as_strong
from tracker.ops.special.table import ufunc_named
from tracker.scipy._dropin import drop_in
from tracker.scipy._harmonics import (  # noqa: F401
    assoc_legendre_p,
    legendre_p,
    sph_harm_y,
    sph_legendre_p,
)
from tracker.scipy._passing import as_array, passing

# Python functions of SciPy's that hand their arguments to ufuncs as they are.
WORKS = ("zeta", "lambertw", "jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")
__getattr__ = passing(scipy.special, works=WORKS)


@drop_in(scipy.special)
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log(sum(b exp(a))), with SciPy's keywords. Elements that are -inf, or whose b is 0, have the
    gradient 0 in a; so have all elements when the result is -inf.

    >>> tracker.gradient(lambda a: logsumexp(a), np.array([0.0, -np.inf]))
    (array([1., 0.]),)
    """
    a = as_array(a)
    if b is not None:
        a, b = np.broadcast_arrays(a, as_array(b))
        a = np.where(b == 0, -math.inf, a)
    a = np.atleast_1d(a)
    axis = tuple(range(np.ndim(a))) if axis is None else axis
    lowest: dict[str, Any] = {} if np.size(a) else {"initial": -math.inf}
    top = ignore_derivatives(np.max(np.real(a), axis=axis, keepdims=True, **lowest))
    finite = np.where(np.isfinite(top), top, 0.0)
    parts = np.exp(a - finite)
    parts = parts if b is None else b * parts
    if np.iscomplexobj(parts):
        total = np.sum(parts, axis=axis, keepdims=True)
        rest = np.zeros_like(np.abs(total))
    else:  # the largest elements apart: what is added to them may be smaller than their last digit
        largest = a == top
        total = np.sum(np.where(largest, parts, 0.0), axis=axis, keepdims=True)
        rest = np.sum(np.where(largest, 0.0, parts), axis=axis, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        out, sign = _log_of_sum(total, rest, return_sign)
    out = out + finite
    given = (out, sign) if return_sign else (out,)
    if not keepdims:
        given = tuple(np.squeeze(y, axis=axis)[()] for y in given)
    return given if return_sign else given[0]


def _log_of_sum(total: Any, rest: Any, split: bool) -> tuple[Any, Any]:
    """log(total + rest) and its sign: that of |total + rest| if `split`."""
    if np.iscomplexobj(total):
        size = np.abs(total)
        sign = total / np.where(size == 0, 1.0, size)
        return (np.log(size) if split else np.log(total)), sign
    whole = total + rest
    small = (total > 0) & (np.abs(rest) < 0.5 * total)
    base = np.where(small, total, np.abs(whole) if split else whole)
    out = np.log(base) + np.log1p(np.where(small, rest / np.where(small, total, 1.0), 0.0))
    return out, np.sign(whole)


@drop_in(scipy.special)
def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x))."""
    x = as_array(x)
    e = np.exp(x - ignore_derivatives(np.max(x, axis=axis, keepdims=True)))
    return e / np.sum(e, axis=axis, keepdims=True)


@drop_in(scipy.special)
def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)), without overflow."""
    x = as_array(x)
    top = ignore_derivatives(np.max(x, axis=axis, keepdims=True))
    x = x - np.where(np.isfinite(top), top, 0.0)
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))


@drop_in(scipy.special)
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return np.logaddexp(0.0, x)


@drop_in(scipy.special)
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x)."""
    return np.sinc(x)


@drop_in(scipy.special)
def diric(x: Any, n: Any) -> Any:
    """sin(n x / 2) / (n sin(x / 2)): the Dirichlet kernel, for a whole number n."""
    x, n = as_array(x), np.asarray(n)
    turns = np.rint(x / (2 * math.pi))
    near = np.abs(x - 2 * math.pi * turns) < 1e-7
    safe = np.where(near, 1.0, x)
    rest = np.where(near, x - 2 * math.pi * turns, 0.0)
    limit = np.where((turns * (n - 1)) % 2 == 0, 1.0, -1.0) * (1 - (n**2 - 1) / 24 * rest**2)
    return np.where(near, limit, np.sin(n * safe / 2) / (n * np.sin(safe / 2)))


# Gamma --------------------------------------------------------------------------------------------


@drop_in(scipy.special)
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of psi, for whole n >= 0."""
    n = np.asarray(n)
    order = np.where(n == 0, 1, n)
    scale = np.where(order % 2 == 1, 1.0, -1.0) * scipy.special.gamma(order + 1.0)
    high = scale * scipy.special.zeta(order + 1.0, x)
    return np.where(n == 0, scipy.special.psi(x), high)


@drop_in(scipy.special)
def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the multivariate gamma function of dimension d."""
    if np.ndim(d) != 0 or int(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    if np.any(a <= 0.5 * (d - 1)):
        raise ValueError(f"condition a ({float(np.min(np.asarray(a.data)))}) > 0.5 * (d-1) not met")
    steps = np.arange(d) / 2
    total = np.sum(scipy.special.gammaln(np.expand_dims(a, -1) - steps), axis=-1)
    return total + d * (d - 1) / 4 * math.log(math.pi)


@drop_in(scipy.special)
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Gamma(n + 1); 0 for negative n, or with `extend="complex"` NaN for whole ones."""
    if extend not in ("zero", "complex"):
        raise ValueError(f"argument `extend` must be 'zero' or 'complex', not {extend!r}")
    _refuse_exact("factorial", exact)
    n = as_strong(n)
    if extend == "complex":
        y = scipy.special.gamma(n + 1)
        return y if np.iscomplexobj(n) else np.where(n == -1, math.nan, y)[()]
    if np.iscomplexobj(n):
        raise ValueError("the factorial of complex numbers: pass extend='complex'")
    return np.where(n < 0, 0.0, scipy.special.gamma(np.where(n < 0, 0.0, n) + 1))[()]


@drop_in(scipy.special)
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """binom(N, k), 0 outside 0 <= k <= N; with repetition binom(N + k - 1, k)."""
    _refuse_exact("comb", exact)
    N, k = as_strong(N), as_strong(k)
    if repetition:
        return np.where((k == 0) & (N >= 0), 1.0, scipy.special.binom(N + k - 1, k))[()]
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, scipy.special.binom(N, k), 0.0)[()]


@drop_in(scipy.special)
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """N! / (N - k)!, 0 outside 0 <= k <= N."""
    _refuse_exact("perm", exact)
    N, k = as_strong(N), as_strong(k)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, scipy.special.poch(N - k + 1, k), 0.0)[()]


def _refuse_exact(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedError(
            message(
                f"scipy.special.{name} with exact=True is a function of whole numbers",
                "Leave exact= out, or use tracker.data(n) where no gradient is wanted",
            )
        )


# Spherical Bessel functions -----------------------------------------------------------------------


def _spherical(name: str, even: int) -> Any:
    """`even`: the sign that a negative z brings for even n (0: no symmetry, DLMF 10.47(v))."""
    value, slope = ufunc_named(f"_spherical_{name}"), ufunc_named(f"_spherical_{name}_d")

    def function(n: Any, z: Any, derivative: bool = False) -> Any:
        ufunc = slope if derivative else value
        assert ufunc is not None
        n = np.asarray(n, dtype=np.dtype("long"))
        if np.iscomplexobj(z):
            return ufunc(n, z)
        if not even:
            turned = np.real(ufunc(n, np.minimum(z, 0.0) + 0j))
            return np.where(z < 0, turned, ufunc(n, np.where(z < 0, 1.0, z)))
        sign = np.where((n % 2 == 0) ^ derivative, even, -even)
        right = np.where(z < 0, -z, z)  # at 0, with the slope that abs does not have
        return ufunc(n, right) * np.where(z < 0, sign, 1)

    function.__name__ = f"spherical_{name}"
    return drop_in(scipy.special)(function)


spherical_jn = _spherical("jn", 1)
spherical_yn = _spherical("yn", -1)
spherical_in = _spherical("in", 1)
spherical_kn = _spherical("kn", 0)
