"""Arithmetic, comparisons, elementary functions, and the derivatives of these that are ops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tracker.interop.jax_ops.table import functions, rule, same_names
from tracker.ir.graph import Const

same_names(
    jnp,
    "greater greater_equal less less_equal equal not_equal logical_and logical_or logical_xor "
    "logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift bitwise_count "
    "gcd lcm where negative positive absolute fabs sign exp exp2 expm1 log log2 log10 log1p sqrt "
    "cbrt square reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh "
    "arctanh deg2rad rad2deg radians degrees floor ceil trunc rint isnan isinf isfinite signbit "
    "real imag conjugate add subtract multiply divide arctan2 hypot logaddexp "
    "logaddexp2 maximum minimum fmax fmin copysign heaviside nextafter ldexp",
)


@rule("floor_divide", "remainder", "fmod")
def _integer_division(step: Any, a: Any, b: Any) -> Any:
    """An integer divided by 0 is 0 in NumPy."""
    divide = getattr(jnp, step.name)
    if step.dtype.kind == "f":
        return divide(a, b)
    return jnp.where(b == 0, 0, divide(a, jnp.where(b == 0, 1, b)))


@rule("power", "float_power")
def _power(step: Any, x: Any, n: Any) -> Any:
    """Integer powers that are literals are products, as in NumPy."""
    exponent = step.operands[1]
    if isinstance(exponent, Const) and abs(exponent.value) <= 100:
        if exponent.value == 0.5:
            return jnp.sqrt(x)
        if exponent.value == int(exponent.value.real):
            return jnp.power(x, int(exponent.value.real))
    return jnp.power(x, n)


@rule("astype", "to_discrete")
def _cast(step: Any, x: Any, dtype: Any) -> Any:
    """A number that is no integer of the dtype is something else on every processor."""
    if dtype.kind in "iu" and x.dtype.kind in "fc":
        limits = np.iinfo(step.dtype)
        whole = jnp.trunc(jnp.real(x))
        inside = (whole >= float(limits.min)) & (whole < float(limits.max) + 1)
        step.check(jnp.all(inside), f"a number is no {dtype}")
    return x if dtype.kind in "cb" else jnp.real(x)


@rule("zeros_like")
def _zeros_like(step: Any, x: Any, shape: Any, dtype: Any) -> Any:
    return jnp.zeros(shape, step.dtype)


@rule("ones_like")
def _ones_like(step: Any, x: Any, shape: Any, dtype: Any) -> Any:
    return jnp.ones(shape, step.dtype)


def _sech_squared(y: Any, x: Any) -> Any:
    """1 - y**2, where y is tanh(x), without cancellation."""
    decay = jnp.exp(jnp.where(jnp.real(x) < 0, 2.0, -2.0) * x)
    far = 4 * decay / jnp.square(1 + decay)
    near = 1 - jnp.square(y)
    return jnp.where(jnp.abs(near) < 2.0**-4, far, near)


def _logistic_density(x: Any) -> Any:
    decay = jnp.exp(-jnp.abs(x))
    return decay / jnp.square(1 + decay)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + jnp.exp(-x)) if jnp.iscomplexobj(x) else jax.nn.sigmoid(x)


def _cosine(x: Any, other: Any) -> Any:
    """x / hypot(x, other); 0 at the origin. Two infinite sides count as equal."""
    size = jnp.hypot(x, other)
    far = jnp.isinf(size)
    x, other = (jnp.where(far, jnp.clip(s, -1, 1) * jnp.isinf(s), s) for s in (x, other))
    size = jnp.where(far, jnp.hypot(x, other), size)
    return x / (size + (size == 0))


# Products with strong zeros: a primitive, for JAX must know that it is linear in each operand.


def _strong_product(a: Any, b: Any) -> Any:
    """a * b, where zeros are strong (`ops/elementwise/binary.py`)."""
    product = a * b
    is_zero = jnp.isnan(product) & ((a == 0) | ((b == 0) & ~jnp.isnan(a)))
    is_faint = (jnp.square(a * 0.5) == 0) | (jnp.square(b * 0.5) == 0)
    return jnp.where(is_zero | (jnp.isinf(product) & is_faint), 0, product)


_strong_multiply = Primitive("strong_multiply")
_strong_multiply.def_impl(jax.jit(_strong_product))
_strong_multiply.def_abstract_eval(lambda a, b: a)
mlir.register_lowering(_strong_multiply, mlir.lower_fun(_strong_product, multiple_results=False))


def _batched(xs: Any, axes: Any) -> Any:
    size = next(x.shape[axis] for x, axis in zip(xs, axes, strict=True) if axis is not None)
    mapped = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(xs, axes, strict=True)
    ]
    return _strong_multiply.bind(*mapped), 0


batching.primitive_batchers[_strong_multiply] = _batched
ad.defbilinear(
    _strong_multiply,
    lambda ct, a, b: _strong_multiply.bind(ct, b),
    lambda ct, a, b: _strong_multiply.bind(a, ct),
)


functions(
    {
        "complex_of": jax.lax.complex,
        "one_less_square": lambda x: (1 - x) * (1 + x),
        "arctan_slope": lambda x: 1 / (1 + x * x),
        "sech_squared": _sech_squared,
        "logistic_density": _logistic_density,
        "sigmoid": _sigmoid,
        "cosine": _cosine,
        "strong_multiply": lambda a, b: _strong_multiply.bind(*jnp.broadcast_arrays(a, b)),
        "spacing": lambda x: jnp.copysign(jnp.nextafter(jnp.abs(x), jnp.inf) - jnp.abs(x), x),
        "exponent": lambda x: jnp.frexp(x)[1],
    }
)
