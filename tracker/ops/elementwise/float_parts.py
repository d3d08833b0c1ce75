"""Parts of floating-point numbers (`frexp`, `ldexp`, `modf`, `nextafter`, ...), the functions of
`np.emath`, which return complex numbers outside of the real domain, and `i0`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.ir.op import NUMPY
from tracker.ir.types import Type, type_of
from tracker.ops.declare.arguments import as_array
from tracker.ops.declare.declare import declare, elementwise, implements, map_lowering, nondiff_op
from tracker.ops.declare.dtypes import broadcast_shape, loop_dtypes
from tracker.ops.declare.numpy_code import run_as_written
from tracker.ops.declare.rule_helpers import project
from tracker.tape.record import apply, aval_of

nextafter = elementwise(np.nextafter, partials=[1, 0], lower=lambda e, a, b: e.next_after(a, b))
spacing = elementwise(np.spacing, partials=[0], lower=lambda e, x: e.spacing(x))
ldexp = declare(  # x * 2**n for an integer n
    "ldexp",
    infer=lambda x, n: Type(broadcast_shape((x, n)), loop_dtypes(np.ldexp, (x, n))[2]),
    evaluate=np.ldexp,
    jvp=[lambda t, y, x, n: np.ldexp(t, n), None],
    vjp=[lambda g, y, x, n: project(np.ldexp(g, n), x), None],
    lower=map_lowering(np.ldexp, lambda e, x, n: e.ldexp(x, n), "fi"),
)
exponent = nondiff_op(  # n, where x is m * 2**n with 0.5 <= |m| < 1
    "exponent",
    infer=lambda x: Type(x.shape, loop_dtypes(np.frexp, (x,))[2]),
    evaluate=lambda x: np.frexp(x)[1],
    lower=map_lowering(np.frexp, lambda e, x: e.frexp_exponent(x), "f"),
)


@implements(np.ldexp)
def ldexp_(x1: Any, x2: Any) -> Any:
    numbers = (int, float)  # weak Python numbers
    return apply(ldexp, tuple(x if type(x) in numbers else as_array(x) for x in (x1, x2)))


@implements(np.frexp)
def frexp(x: Any) -> Any:
    x = as_array(x)
    power = apply(exponent, (x,))
    kind = loop_dtypes(np.frexp, (type_of(aval_of(x)),))[1]
    return np.ldexp(np.astype(x, kind), -power), power


@implements(np.modf)
def modf(x: Any) -> Any:
    x = as_array(x)
    x = np.astype(x, loop_dtypes(np.modf, (type_of(aval_of(x)),))[0])
    inside = np.where(np.isinf(x), np.copysign(0, x), x)
    return np.fmod(inside, 1), np.trunc(x)


run_as_written(np.fix, np.real_if_close)

# Complex results of real arguments ----------------------------------------------------------------


_SHORT = [np.dtype(kind) for kind in ("f4", "i1", "i2", "u1", "u2")]


def _complex_where(outside: Any) -> Any:
    """A conversion to complex if any element is outside of the real domain."""

    def widen(x: Any) -> Any:
        x = as_array(x)
        if x.dtype.kind == "c" or not np.any(outside(x)):
            return x
        return np.astype(x, np.complex64 if x.dtype in _SHORT else complex)

    return widen


def _install_emath(name: str, widen: Any) -> None:
    plain = getattr(np, name)
    NUMPY[getattr(np.emath, name)] = lambda x: plain(widen(x))


_complex_if_negative = _complex_where(lambda x: x < 0)
for _name in ("sqrt", "log", "log10", "log2"):
    _install_emath(_name, _complex_if_negative)
for _name in ("arccos", "arcsin", "arctanh"):
    _install_emath(_name, _complex_where(lambda x: np.abs(x) > 1))


@implements(np.emath.logn)
def logn(n: Any, x: Any) -> Any:
    return np.log(_complex_if_negative(x)) / np.log(_complex_if_negative(n))


@implements(np.emath.power)
def power(x: Any, p: Any) -> Any:
    p = as_array(p)
    if p.dtype.kind in "biu" and np.any(p < 0):
        p = np.astype(p, float)
    return np.power(_complex_if_negative(x), p)


# Bessel -------------------------------------------------------------------------------------------

# Chebyshev coefficients of exp(-x) sqrt(x) I0(x) in 32/x - 2, for x > 8 (Cephes, S. L. Moshier).
_LARGE = (
    *(-7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17),
    *(3.46122286769746109310e-17, -2.82762398051658348494e-16, -3.42548561967721913462e-16),
    *(1.77256013305652638360e-15, 3.81168066935262242075e-15, -9.55484669882830764870e-15),
    *(-4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13),
    *(7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11),
    *(-3.14991652796324136454e-11, 1.18891471078464383424e-11, 4.94060238822496958910e-10),
    *(3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7),
    *(2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3),
    8.04490411014108831608e-1,
)


@implements(np.i0)
def i0(x: Any) -> Any:
    """Near 0 by the power series, which is even: smooth at 0 to every order."""
    x = as_array(x)
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    x = x if x.dtype.kind == "f" else np.astype(x, float)
    near = np.abs(x) <= 8
    quarter = np.square(np.where(near, x, 0.0)) / 4
    series = np.ones_like(quarter)
    for k in range(40, 0, -1):
        series = 1 + quarter / (k * k) * series
    far = np.where(near, 8.0, np.abs(x))
    return np.where(near, series, np.exp(far) * _chebyshev(32 / far - 2, _LARGE) / np.sqrt(far))


def _chebyshev(x: Any, coefficients: tuple[float, ...]) -> Any:
    b0: Any = coefficients[0]
    b1: Any = 0.0
    b2: Any = 0.0
    for c in coefficients[1:]:
        b2, b1 = b1, b0
        b0 = x * b1 - b2 + c
    return 0.5 * (b0 - b2)
