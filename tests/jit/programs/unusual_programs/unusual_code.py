"""Strange programs: Python's many ways of saying things."""

import contextlib
import functools
import itertools
import math
import operator

import numpy as np
from unusual import PROGRAMS, M, V, program, table


@program((V, 5), (V, 0), (V, 3))
def recursion(x, n):
    return x[0] if n == 0 else x[n % 3] * recursion(x, n - 1) + 1.0


def _power(x, n, *, scale=1.0):
    return np.sum(x**n) * scale


PROGRAMS["partial"] = functools.partial(_power, n=2, scale=3.0), [(V,), (V * 2,)]
PROGRAMS["partial_of_partial"] = (
    functools.partial(functools.partial(_power, n=3), scale=0.5),
    [(V,), (V * 2,)],
)
PROGRAMS["lambda"] = (lambda x, y=2.0: np.sum(x) * y), [(V,), (V, 3.0), (V * 2,)]
PROGRAMS["ufunc"] = np.sin, [(V,), (0.5,), (M,)]
PROGRAMS["numpy_function"] = np.sum, [(V,), (M,)]
PROGRAMS["builtin"] = operator.mul, [(V, 2.0), (2.0, 3.0)]
PROGRAMS["itemgetter"] = operator.itemgetter(1), [(V,), ([V, V * 2],)]
PROGRAMS["methodcaller"] = operator.methodcaller("sum"), [(V,), (M,)]
PROGRAMS["made_in_a_loop"] = [lambda x, k=k: x * k for k in (1.0, 2.0, 3.0)][1], [(V,), (2.0,)]


class _Callable:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return np.sum(x * self.w)

    @staticmethod
    def static(x):
        return np.sum(x) * 2

    @classmethod
    def of_class(cls, x):
        return cls(2.0)(x)

    @property
    def double(self):
        return 2 * self.w

    @functools.cached_property
    def triple(self):
        return 3 * self.w

    def method(self, x):
        return np.sum(x) * self.double + self.triple


PROGRAMS["callable_object"] = _Callable(V), [(V,), (V * 2,)]
PROGRAMS["static_method"] = _Callable.static, [(V,), (V * 2,)]
PROGRAMS["class_method"] = _Callable.of_class, [(V,), (V * 2,)]
PROGRAMS["bound_method"] = _Callable(2.0).method, [(V,), (V * 2,)]


@functools.cache
def _table(n):
    return np.arange(float(n))


@table
class Code:
    # Branches and loops ----------------------------------------------------------------------

    @program((V, 0.5), (V, -0.5), (-V, 0.5), (-V, -0.5), (V, 0.0))
    def nested_branches(x, t):
        if x[0] > 0:
            y = np.sin(x) if t > 0 else np.cos(x) if t < 0 else x * 3
        elif t > 0:
            y = x**2
        else:
            y = -x
        return np.sum(y) * t + y[1]

    @program((2.0,), (9.0,), (1e-3,), (2.0,))
    def newton_until(a):
        x, err = a, 1.0
        while err > 1e-10:
            new = 0.5 * (x + a / x)
            err = abs(new - x)
            x = new
        return x

    @program((V, 2.7), (V, 4.1), (V, 2.2))
    def truncated_range(x, n):
        total = 0.0
        for i in range(int(n)):
            total = total + x[i % 3] ** i
        return total

    @program((V,), (-V,), (V * 10,))
    def early_return(x):
        for i, v in enumerate(x):
            if v < 0:
                return v * i
        return np.sum(x)

    @program((V, 1.0), (V, -1.0), (V, 1.0))
    def raises_on_a_value(x, t):
        if t < 0:
            raise ValueError(f"t is {t}")
        return np.sum(x * t)

    @program((V, 1.0), (V, 0.0), (V, 2.0))
    def catches_its_own(x, t):
        try:
            y = 1.0 / t
        except ZeroDivisionError:
            y = -1.0
        return np.sum(x) * y

    @program((V, 1.0), (V, 3.0))
    def loop_else(x, limit):
        for v in x:
            if v > limit:
                y = v
                break
        else:
            y = x[0]
        return y * 2

    def breaks_and_continues(x):
        total = 0.0
        for v in x:
            if v < 0:
                continue
            if total > 1.5:
                break
            total += v
        return total

    @program((V, 1.0), (V, 2.0), (V, 3.0), (V, 7.0))
    def match_statement(x, k):
        match int(k):
            case 1:
                return np.sum(x)
            case 2 | 3:
                return x[0] * k
            case _:
                return x[1]

    @program((V,), (V + 3,))
    def walrus_and_chains(x):
        if 0 < (s := np.sum(x)) < 3:
            return s**2
        return s

    @program((V, 2), (V, 1), (V, -1))
    def indexes_with_an_int(x, i):
        return x[i] * i + x[i - 1 : i + 1].sum()

    @program((V, 2), (V, 0))
    def looks_up(x, n):
        return {0: np.sin, 2: np.cos}[n](x).sum() + [1.0, 2.0, 4.0][n]

    @program((0.3,), (1.7,), (-2.2,))
    def floors_and_rounds(x):
        return math.floor(x) + round(x) * x + int(x) + math.ceil(x) + math.trunc(x)

    @program((V,), (V[::-1].copy(),))
    def sorts_by_python(x):
        return sum(v * k for k, v in enumerate(sorted(x)))

    @program((V,), (V + 2,))
    def any_and_all(x):
        return (
            np.sum(x)
            if all(v > 0 for v in x)
            else np.prod(x)
            if any(v > 1 for v in x)
            else 0.0 * x[0]
        )

    @program((V,), (V * 3,))
    def max_and_min_of_python(x):
        return max(x) - min(x) + max(x[0], x[1], key=abs)

    @program((V, 0.1), (V, 0.9))
    def conditional_expression_of_arrays(x, t):
        return (x if t > 0.5 else x * 2)[1] + (np.sin if t > 0.5 else np.cos)(x)[0]

    @program((V, 0.1), (V * 3, 0.1))
    def asserts(x, t):
        assert np.all(np.isfinite(x)), "finite"
        assert x.ndim == 1 and len(x) == 3
        return x @ x * t

    def generators(x):
        def halves(v):
            for e in v:
                yield e / 2
            yield from (e * 3 for e in v)

        return sum(halves(x)) + next(iter(x))

    def comprehensions(x):
        a = [v**2 for v in x if v > 0]
        b = {k: v * 2 for k, v in zip("abc", x, strict=True)}
        return sum(a) + b["a"] * b["c"] + sum({0: x[0], 1: x[1]}.values())

    def itertools_and_reduce(x):
        pairs = itertools.combinations(x, 2)
        total = functools.reduce(operator.add, (a * b for a, b in pairs))
        return total + sum(itertools.accumulate(x, operator.mul)) + math.prod(x)

    def closures_that_count(x):
        n = 0.0

        def add(v):
            nonlocal n
            n = n + v
            return n

        for v in x:
            add(v)
        return n * add(x[0])

    def a_cached_helper(x):
        return np.sum(x * _table(3))

    def with_statement(x):
        with contextlib.suppress(KeyError), np.errstate(all="ignore"):
            y = np.sum(x / 2)
            raise KeyError
        return y

    def star_arguments(x):
        def f(a, *rest, k=1.0, **more):
            return a * k + sum(rest) + sum(more.values())

        first, *others = x
        return f(first, *others, k=2.0, z=x[1])

    def nested_functions_and_decorators(x):
        def twice(f):
            @functools.wraps(f)
            def g(v):
                return f(f(v))

            return g

        @twice
        def h(v):
            return v * 2 + 1

        return np.sum(h(x))

    def classes_inside(x):
        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

            def __add__(self, other):
                return Pair(self.a + other.a, self.b + other.b)

        p = Pair(x[0], x[1]) + Pair(x[1], x[2])
        return p.a * p.b

    def strings_of_values(x):
        assert f"{x.shape}" == "(3,)"
        return np.sum(x) * len(f"{x.dtype}")
