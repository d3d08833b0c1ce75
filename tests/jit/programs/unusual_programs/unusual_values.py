"""Strange programs: text, errors, and what numbers tell of themselves."""

import collections
import functools
import math
import numbers

import numpy as np
from unusual import M, V, program, table


@table
class Values:
    @program((V, 2), (V, 3), (V, 2))
    def text_of_ints(x, n):
        return {"k2": np.sum(x), "k3": x[0]}[f"k{n}"], f"{n:03d}", str(n)

    @program((2.5,), (3.5,), (2.5,))
    def text_of_floats(x):
        return f"{x:.2f}", str(x), repr(x), "%s" % x, x * 2  # noqa: UP031

    def text_of_arrays(x):
        return str(x), x * 2

    @program((V, 1), (V, 5), (V, 0))
    def goes_on_after_an_index_error(x, i):
        try:
            return x[i]
        except IndexError:
            return x[0] * 0.5

    @program((1.5,), (float("nan"),), (2.5,), (float("inf"),), (1.5,))
    def goes_on_after_a_conversion(x):
        try:
            return int(x) * 2.0
        except (ValueError, OverflowError):
            return -1.0

    @program((np.eye(2),), (np.zeros((2, 2)),), (2 * np.eye(2),))
    def goes_on_after_a_singular_matrix(a):
        try:
            return np.sum(np.linalg.inv(a))
        except np.linalg.LinAlgError:
            return np.sum(a) - 1.0

    @program((V, np.ones(2)), (V, V))
    def goes_on_after_a_wrong_shape(x, y):
        try:
            return np.sum(x * y)
        except ValueError:
            return np.sum(x) + np.sum(y)

    @program((1.0,), (2.5,), (3.0,))
    def is_integer(x):
        return x * 2 if x.is_integer() else x

    @program((5,), (8,))
    def int_methods(n):
        return n.bit_length() + n.numerator, n.real, n.conjugate()

    @program((2.5,), (3.5,))
    def float_parts(x):
        return x.real, x.imag, x.conjugate()

    @program((-1.5,), (2.0,), (-1.0,))
    def powers_of_a_python_number(x):
        return x**2, abs(x) ** 0.5, x**-1, 2.0**x

    @program((2.0,), (-2.0,), (3.0,), (-3.0,))
    def roots_of_negative_numbers(x):
        return x**0.5

    @program((1e200,), (2.0,), (1e200,))
    def overflows(x):
        try:
            return x**2
        except OverflowError:
            return 0.5 * x

    @program((3,), (2**62,), (4,))
    def ints_that_grow(n):
        return n * 4 + 1

    @program((2.0, 3), (2.0, -3), (2.0, 0))
    def integer_powers(x, n):
        return x**n

    @program((np.array([2, 3]), 3), (np.array([2, 3]), 2))
    def powers_of_int_arrays(x, n):
        return x**n

    def isinstance_of_all(x):
        s = x.sum()
        parts = [isinstance(x, np.ndarray), isinstance(s, np.floating), isinstance(s, float)]
        return np.sum(x) * sum(parts) + isinstance(x[0], np.float64)

    @program((2.0, 3), (3.0, 4))
    def isinstance_of_python_numbers(x, n):
        assert isinstance(x, float) and isinstance(n, int) and not isinstance(x, np.ndarray)
        assert isinstance(x, numbers.Real) and isinstance(n, numbers.Integral)
        return x * n

    @program((2.0,), (V,), (3,), (np.float32(1.5),))
    def dispatch_on_type(x):
        @functools.singledispatch
        def f(v):
            return np.sum(v) * 100

        f.register(float, lambda v: v * 2)
        f.register(int, lambda v: v * 3.0)
        f.register(np.ndarray, lambda v: np.sum(v))
        return f(x)

    @program((2.0,), (V,), (3,), (np.float32(1.5),), ([1.0, 2.0],))
    def at_least(x):
        return np.atleast_1d(x).shape[0] * np.size(x) + np.ndim(x)

    @program((2.0, 5.0), (7.0, 5.0))
    def clamps(x, hi):
        return (
            min(max(x, 0.0), hi)
            + sorted([x, hi])[0]
            + sum([x, hi])
            + abs(-x)
            + pow(x, 2)
            + round(x)
        )

    @program((V, 3.0), (V, 0.0), (V, 2.0))
    def boolean_logic(x, t):
        return (t and x[0]) or x[1] if not t else (x[0] or 1.0) * (not t) + t

    @program((V, "sum"), (V, "mean"))
    def getattr_by_name(x, how):
        return getattr(x, how)() + getattr(np, how)(x)

    def zips_and_enumerates(x):
        return sum(a * b * i for i, (a, b) in enumerate(zip(x, reversed(x), strict=True)))

    @program((M,), (M * 2,))
    def unpacks_rows(m):
        (a, b, c), (d, *e) = m
        return a * d + b + c + sum(e)

    def dict_with_value_keys(x):
        d = {float(k): k for k in range(3)}
        return x[0] * d[1.0] + {len(x): 2.0}[3]

    @program((2,), (3,), (2,))
    def ints_as_keys(n):
        d = {2: 0.5, 3: 1.5}
        return d[n] + d.get(n + 7, 1.0) + (n in d) + [10.0, 20.0, 30.0, 40.0][n]

    @program((V, 2), (V, 3))
    def allocations(x, n):
        out = np.zeros(n)
        out = out + x[0]
        return np.sum(out) + np.sum(np.ones((n, 2))) + len(np.arange(n)) + np.linspace(0, 1, n)[-1]

    @program((V, -1), (V, 0))
    def axis_as_argument(x, axis):
        return np.sum(np.sum(np.stack([x, x * 2]), axis=axis))

    @program((V, (3, 1)), (V, (1, 3)))
    def shape_as_argument(x, shape):
        return np.sum(x.reshape(shape) @ x.reshape(shape[::-1]))

    @program((np.eye(3)[:, ::-1],), (np.asfortranarray(np.eye(3)),))
    def writes_into_odd_layouts(x):
        x[0] += 1
        x.T[1] *= 3
        return np.sum(x * np.arange(9.0).reshape(3, 3))

    @program((V, 0.5), (V, 1.5))
    def errstate(x, t):
        with np.errstate(divide="ignore", invalid="ignore"):
            y = np.where(x > t, 1 / (x - t), 0.0)
        return np.sum(y)

    @program((V, np.float64(1.0)), (V, np.float64(0.0)), (V, np.float64(2.0)))
    def errstate_that_raises(x, t):
        with np.errstate(all="raise"):
            return np.sum(x / t)

    @program((V, np.ones(3)), (V, np.zeros(3)), (V, np.ones(3)))
    def errstate_that_is_caught(x, t):
        try:
            with np.errstate(all="raise"):
                return np.sum(x / t)
        except FloatingPointError:
            return np.sum(x)

    @program((np.float64(2.0),), (np.float64(0.0),))
    def numpy_floats_divide(x):
        with np.errstate(all="ignore"):
            return 1 / x + x**0.5

    def global_state_of_random(x):
        rng = np.random.default_rng(3)
        return np.sum(x * rng.normal(size=3))

    @program((V, np.nan), (V, 1.0), (V, np.nan))
    def nan_arguments(x, t):
        return np.sum(x) if t != t else np.sum(x) * t

    @program((-0.0,), (0.0,), (-0.0,))
    def signed_zeros(x):
        return math.copysign(1.0, -0.0) + np.copysign(1.0, x)

    @program(
        (V, slice(None)),
        (V, slice(1)),
        (V, (0,)),
        (V, [True, False, True]),
        (V, Ellipsis),
        (V, None),
    )
    def any_index(x, i):
        return np.sum(x[i])

    @program((0.3,), (1.2,))
    def functions_of_math(x):
        return math.pi * x + math.e

    def swaps_axes_in_place(x):
        y = np.stack([x, x])
        y.shape = (3, 2)
        return y[0] @ y[1]

    @program((V, 1.0), (V, -1.0))
    def finally_runs(x, t):
        log = []
        try:
            if t < 0:
                return np.sum(x)
            log.append(t)
        finally:
            log.append(2.0)
        return np.sum(x) * sum(log)

    @program((V, 4.0), (V, 0.1))
    def bisection(x, hi):
        lo = 0.0
        while hi - lo > 1e-3:
            mid = 0.5 * (lo + hi)
            lo, hi = (mid, hi) if mid * mid < 2 else (lo, mid)
        return lo * np.sum(x)

    @program((6,), (27,), (6,))
    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps * 1.0

    @program((10.0,), (2.0,))
    def ackermann_like(x):
        def f(n, x):
            return x if n <= 0 else f(n - 1, f(n - 2, x) * 0.5)

        return f(int(x) % 5, x)

    @program((np.array(2.0),), (np.array(3.0),))
    def zero_dimensional(x):
        x += 1
        return x * 2, x[()], float(np.shape(x) == ()), x.item() * 2

    def returns_views(x):
        return x[1:], x.T, x.reshape(3, 1), x

    def writes_then_returns_it(x):
        x[0] = 9.0
        return x

    @program((V, V), (V * 2, V))
    def accumulates_in_a_dict(x, y):
        acc = collections.defaultdict(float)
        for k, v in zip("aba", x, strict=True):
            acc[k] += v * y[0]
        return acc["a"] * acc["b"]

    def counter_class(x):
        class Acc:
            __slots__ = ("t",)

            def __init__(self):
                self.t = 0.0

            def __iadd__(self, v):
                self.t += v
                return self

        a = Acc()
        for v in x:
            a += v
        return a.t

    def uses_eval(x):
        return eval("np.sum(x) * k", {"np": np, "x": x, "k": 2})
