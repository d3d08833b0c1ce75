"""`scipy.special` on tracked values. SciPy's ufuncs accept tracked values themselves (see
`tracker/ops/special/`); here are its Python functions, which convert their arguments. Legendre
functions and spherical harmonics are in `harmonics.py`. Names that are not defined here are SciPy's
own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special

from tracker.autodiff.stop_gradient import ignore_derivatives
from tracker.errors import UnsupportedError
from tracker.ops.declare.arguments import as_strong_array
from tracker.ops.reduce.softmax import apply_to_real
from tracker.ops.reduce.softmax import logsoftmax as logsoftmax_op
from tracker.ops.reduce.softmax import logsumexp as logsumexp_op
from tracker.ops.reduce.softmax import softmax as softmax_op
from tracker.ops.special.table import ufunc_named
from tracker.scipy._bridge.dropin import drop_in
from tracker.scipy._bridge.fallback import as_array, scipy_fallback
from tracker.scipy.special.harmonics import assoc_legendre_p as assoc_legendre_p
from tracker.scipy.special.harmonics import legendre_p as legendre_p
from tracker.scipy.special.harmonics import sph_harm_y as sph_harm_y
from tracker.scipy.special.harmonics import sph_legendre_p as sph_legendre_p
from tracker.tape.record import aval_of

# SciPy's Python functions that pass their arguments to ufuncs unchanged.
ACCEPT_TRACKED = ("zeta", "lambertw", "jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")
if TYPE_CHECKING:
    from scipy.special import *  # noqa: F403
else:
    _fallback, __dir__ = scipy_fallback(scipy.special, accept_tracked=ACCEPT_TRACKED)

    def __getattr__(name: str) -> Any:
        ufunc = getattr(scipy.special._ufuncs, name, None)  # SCIPY_ARRAY_API=1 wraps it
        return ufunc if isinstance(ufunc, np.ufunc) else _fallback(name)


@drop_in(scipy.special)
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log(sum(b exp(a))), with SciPy's keywords, without overflow. Elements that are -inf, or
    whose b is 0, have the gradient 0; so have all elements if the result is -inf. Infinite
    elements share 1.

    >>> tracker.gradient(lambda a: logsumexp(a), np.array([0.0, -np.inf]))
    (array([1., 0.]),)
    """
    a = as_array(a)
    if b is not None:
        a, b = np.broadcast_arrays(a, as_array(b))
        a, b = np.where(b == 0, -math.inf, a), np.atleast_1d(b)
    a = np.atleast_1d(a)
    axis = tuple(range(np.ndim(a))) if axis is None else axis
    complex_ = np.iscomplexobj(a) or np.iscomplexobj(b)
    if complex_ or np.size(a) == 0:
        out, sign = _log_of_sum(*_scaled_exponentials(a, b, axis), return_sign)
    elif b is None:
        out = apply_to_real(logsumexp_op, a, axis)
        sign = (
            np.sign(_scaled_exponentials(ignore_derivatives(a), b, axis)[0])
            if return_sign
            else None
        )
    else:
        a, b = _to_common_dtype(a, b)
        out = apply_to_real(logsumexp_op, a, axis, b)
        fixed = ignore_derivatives((a, b))
        sign = np.sign(_scaled_exponentials(fixed[0], fixed[1], axis)[0])
        out = out if return_sign else np.where(sign < 0, math.nan, np.ones_like(sign)) * out
    given = (out, sign) if return_sign else (out,)
    if not keepdims:
        given = tuple(np.squeeze(y, axis=axis)[()] for y in given)
    return given if return_sign else given[0]


def _to_common_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    kind = np.result_type(np.exp(aval_of(a)[..., :0]), aval_of(b))
    return np.astype(a, kind), np.astype(b, kind)


def _scaled_exponentials(a: Any, b: Any, axis: Any) -> tuple[Any, Any]:
    """The sum of b exp(a - top), and top: the largest real part, or 0 if that is infinite."""
    lowest: dict[str, Any] = {} if np.size(a) else {"initial": -math.inf}
    top = ignore_derivatives(np.max(np.real(a), axis=axis, keepdims=True, **lowest))
    top = np.where(np.isfinite(top), top, 0.0)
    parts = np.exp(a - top)
    return np.sum(parts if b is None else b * parts, axis=axis, keepdims=True), top


def _log_of_sum(total: Any, top: Any, split: bool) -> tuple[Any, Any]:
    """The logarithm of total exp(top), and the sum's sign; if `split`, the logarithm of its
    modulus."""
    size = np.abs(total)
    sign = total / np.where(size == 0, 1.0, size)
    with np.errstate(divide="ignore"):
        return np.log(size if split else total) + top, sign


@drop_in(scipy.special)
def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x))."""
    x = as_array(x)
    if not np.iscomplexobj(x):
        return apply_to_real(softmax_op, x, axis, shared=False)
    e = np.exp(x - ignore_derivatives(np.max(x, axis=axis, keepdims=True)))
    return e / np.sum(e, axis=axis, keepdims=True)


@drop_in(scipy.special)
def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)), without overflow."""
    x = as_array(x)
    if not np.iscomplexobj(x):
        return apply_to_real(logsoftmax_op, x, axis)
    x = x - ignore_derivatives(np.max(x, axis=axis, keepdims=True))
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
    """The Dirichlet kernel sin(n x / 2) / (n sin(x / 2)), for a whole number n."""
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
    """Gamma(n + 1); 0 for negative n, or with `extend="complex"` NaN at negative integers."""
    if extend not in ("zero", "complex"):
        raise ValueError(f"argument `extend` must be 'zero' or 'complex', not {extend!r}")
    _refuse_exact("factorial", exact)
    n = as_strong_array(n)
    if extend == "complex":
        y = scipy.special.gamma(n + 1)
        return y if np.iscomplexobj(n) else np.where(n == -1, math.nan, y)[()]
    if np.iscomplexobj(n):
        raise ValueError("the factorial of complex numbers: pass extend='complex'")
    y = np.where(n < 0, 0.0, scipy.special.gamma(np.where(n < 0, 0.0, n) + 1))
    return np.astype(y, float) if np.ndim(n) else y[()]  # as SciPy, of float32, too


@drop_in(scipy.special)
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """binom(N, k), 0 outside 0 <= k <= N; with repetition binom(N + k - 1, k)."""
    _refuse_exact("comb", exact)
    N, k = as_strong_array(N), as_strong_array(k)
    if repetition:
        return np.where((k == 0) & (N >= 0), 1.0, scipy.special.binom(N + k - 1, k))[()]
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, scipy.special.binom(N, k), 0.0)[()]


@drop_in(scipy.special)
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """N! / (N - k)!, 0 outside 0 <= k <= N."""
    _refuse_exact("perm", exact)
    N, k = as_strong_array(N), as_strong_array(k)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, scipy.special.poch(N - k + 1, k), 0.0)[()]


def _refuse_exact(name: str, exact: bool) -> None:
    if exact:
        text = f"scipy.special.{name} with exact=True is a function of whole numbers"
        raise UnsupportedError(
            text, "Leave exact= out, or use tracker.data(n) where no gradient is wanted"
        )


# Spherical Bessel functions -----------------------------------------------------------------------


def _spherical_bessel(name: str, even: int) -> Any:
    """`even` is the sign for negative z and even n (0: no symmetry, DLMF 10.47(v))."""
    value, slope = ufunc_named(f"_spherical_{name}"), ufunc_named(f"_spherical_{name}_d")

    def function(n: Any, z: Any, derivative: bool = False) -> Any:
        ufunc = slope if derivative else value
        assert ufunc is not None
        n = np.asarray(n, dtype=np.dtype("long"))
        if np.iscomplexobj(z):
            return ufunc(n, z)
        if not even:
            negative = np.real(ufunc(n, np.minimum(z, 0.0) + 0j))
            return np.where(z < 0, negative, ufunc(n, np.where(z < 0, 1.0, z)))
        sign = np.where((n % 2 == 0) ^ derivative, even, -even)
        right = np.where(z < 0, -z, z)  # abs without its zero slope at 0
        return ufunc(n, right) * np.where(z < 0, sign, 1)

    function.__name__ = f"spherical_{name}"
    return drop_in(scipy.special)(function)


spherical_jn = _spherical_bessel("jn", 1)
spherical_yn = _spherical_bessel("yn", -1)
spherical_in = _spherical_bessel("in", 1)
spherical_kn = _spherical_bessel("kn", 0)
