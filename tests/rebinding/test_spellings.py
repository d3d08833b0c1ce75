"""Code that knows NumPy by any name, in any place, runs unchanged under a derivative and a trace;
then NumPy is where it was."""

import sys
import types

import numpy
import pytest

import tracker

# Each defines `f(x)`, whose value is x[0]**2 + 3 * x[1]. `{keep}` is what must not have changed.
SPELLINGS = {
    "import as": """
        import numpy as np
        def f(x):
            y = np.zeros(2)
            y[0], y[1] = x[0] ** 2, 3 * x[1]
            return y.sum()
    """,
    "import": """
        import numpy
        def f(x):
            y = numpy.empty((2, 1))
            y[0, 0], y[1, 0] = x[0] ** 2, 3 * x[1]
            return numpy.sum(y)
    """,
    "from": """
        from numpy import zeros as make, array
        def f(x):
            y = make(2)
            y[:] = array([x[0] ** 2, 3 * x[1]])
            return y.sum()
    """,
    "star": """
        from numpy import *
        def f(x):
            y = zeros_like(ones(2))
            y[:] = array([x[0] ** 2, 3 * x[1]])
            return sum(y)
    """,
    "submodule": """
        import numpy.linalg as la
        from numpy import linalg
        from numpy.linalg import norm
        import numpy
        def f(x):
            assert linalg is la
            y = numpy.identity(2)
            y[1, 1] = norm([x[0], 0.0]) * x[0] / la.norm([x[0] / x[0]]) + 3 * x[1] - 1.0
            return numpy.trace(y)
    """,
    "ufuncs of a class": """
        import numpy as np
        class Length:
            def __init__(self, metres):
                self.metres = metres
            def __array_ufunc__(self, ufunc, method, *inputs, **options):
                plain = [getattr(x, "metres", x) for x in inputs]
                if ufunc is np.multiply or ufunc in (np.add,) or ufunc == np.sqrt:
                    assert {np.multiply: 1}.get(ufunc, 0) == (ufunc.__name__ == "multiply")
                    return Length(getattr(ufunc, method)(*plain, **options))
                return NotImplemented
        def f(x):
            side = np.sqrt(np.multiply(Length(x[0]), Length(x[0])))
            return np.add(np.multiply(side, side), Length(3 * x[1])).metres
    """,
    "vectorize": """
        import math
        import numpy as np
        @np.vectorize
        def power(x, n):
            return math.pow(x, n)
        def f(x):
            return np.sum(power([x[0], x[1]], [2.0, 1.0]) * [1.0, 3.0])
    """,
    "partial of a constructor": """
        import functools
        import numpy as np
        filled = functools.partial(np.full, fill_value=0.0)
        def f(x, more=functools.partial(np.full, 1)):
            y, z = filled(1), more(0.0)
            y[0], z[0] = x[0] ** 2, x[1]
            return (y + 3 * z)[0]
    """,
    "frompyfunc": """
        import numpy as np
        def f(x):
            both = np.frompyfunc(lambda a, b: (a * a, 3 * b), 2, 2)(x[0], x[1])
            return np.sum(np.array(both, dtype=float))
    """,
    "import inside": """
        def f(x):
            import numpy as np
            from numpy import ones
            y, z = np.zeros(1), ones(1)
            y[0], z[0] = x[0] ** 2, x[1]
            return (y + 3 * z)[0]
    """,
    "global import inside": """
        def f(x):
            global np
            import numpy as np
            y = np.zeros(2)
            y[0], y[1] = x[0] ** 2, 3 * x[1]
            return y.sum()
    """,
    "default": """
        import numpy
        def g(x, make=numpy.zeros, *, full=numpy.full):
            y, z = make(1), full(1, 3.0)
            y[0] = x[0] ** 2
            z[0] *= x[1]
            return y[0] + z[0]
        del numpy
        def f(x):
            return g(x)
    """,
    "default of itself": """
        import numpy
        def f(x, make=numpy.zeros):
            y = make(2)
            y[0], y[1] = x[0] ** 2, 3 * x[1]
            return y.sum()
    """,
    "closure": """
        def make():
            import numpy as np
            from numpy import ones
            def f(x):
                y, z = np.zeros(1), ones(1)
                y[0], z[0] = x[0] ** 2, x[1]
                return (y + 3 * z)[0]
            return f
        f = make()
    """,
    "closure of a closure": """
        import functools
        def decorate(g):
            @functools.wraps(g)
            def call(*args):
                return g(*args)
            return call
        def make(np):
            @decorate
            def f(x):
                y = np.zeros(2)
                y[0], y[1] = x[0] ** 2, 3 * x[1]
                return y.sum()
            return f
        import numpy
        f = make(numpy)
    """,
    "table": """
        import numpy as np
        MAKE = {"zeros": np.zeros, "ones": np.ones}
        LIST = [np.zeros]
        def f(x):
            y, z = MAKE["zeros"](1), LIST[0](1)
            y[0], z[0] = x[0] ** 2, x[1]
            return (y + 3 * z)[0]
    """,
    "array-like": """
        import numpy as np
        class Row:
            def __init__(self, *numbers):
                self.numbers = numbers
            def __array__(self, dtype=None, copy=None):
                return np.array(self.numbers)
        def f(x):
            made = np.asarray(Row(x[0] ** 2, 3 * x[1]))
            return np.sum(made * Row(1.0, 1.0)) + np.sum(Row(1.0, -1.0)) * (x < Row(0.0, 0.0)).sum()
    """,
    "tuples": """
        import math
        import numpy as np
        from collections import OrderedDict, defaultdict, namedtuple
        from types import SimpleNamespace
        MAKE = (np.zeros, (np.ones, "ones"))
        Pair = namedtuple("Pair", "power fabs")
        PAIR = Pair(math.pow, math.fabs)
        LIST = [("fabs", math.fabs)]
        ORDERED = OrderedDict(fabs=math.fabs)
        DEFAULT = defaultdict(lambda: (lambda x: x), fabs=(math.fabs, 1))
        SPACE = SimpleNamespace(fabs=math.fabs)
        class Model:
            both = math.fabs, math.pow
            def __init__(self, *functions):
                self.functions = functions
            def __call__(self, x, also=(math.fabs,)):
                return also[0](self.functions[0](self.both[0](x)))
        MODEL = Model(math.fabs)
        def make(*functions):
            return lambda x: functions[0](x)
        CLOSURE = make(math.fabs)
        def f(x):
            y, z = MAKE[0](1), MAKE[1][0](1)
            y[0] = PAIR.power(x[0], 2)
            z[0] = MODEL(SPACE.fabs(ORDERED["fabs"](PAIR.fabs(LIST[0][1](x[1])))))
            assert np.zeros in MAKE and isinstance(PAIR, Pair)
            return y[0] + DEFAULT["no"](DEFAULT["fabs"][0](CLOSURE(3 * z[0])))
    """,
    "class": """
        import numpy as np
        class Model:
            zeros = staticmethod(np.zeros)
            def __init__(self):
                self.ones = np.ones
            def parts(self, x):
                y, z = self.zeros(1), self.ones(1)
                y[0], z[0] = x[0] ** 2, x[1]
                return y, z
            @property
            def factor(self):
                three = np.zeros(1)
                three[0] = 3.0
                return three
            def __call__(self, x):
                y, z = self.parts(x)
                return (y + self.factor * z)[0]
        f = Model()
    """,
    "method": """
        import numpy as np
        class Model:
            def call(self, x):
                y = np.zeros(2)
                y[0], y[1] = x[0] ** 2, 3 * x[1]
                return y.sum()
        f = Model().call
    """,
    "partial": """
        import functools
        import numpy as np
        def g(scale, x):
            y = np.zeros(2)
            y[0], y[1] = x[0] ** 2, scale * x[1]
            return y.sum()
        f = functools.partial(g, 3)
    """,
    "cached": """
        import functools
        import numpy as np
        @functools.lru_cache
        def three():
            return np.full(1, 3.0)
        def f(x):
            y = np.array([x[0] ** 2, x[1]])
            return y[0] + y[1] * three()[0]
    """,
    "helper": """
        import helper
        def f(x):
            return helper.joined(x[0] ** 2, 3 * x[1]).sum()
    """,
    "function of a helper": """
        from helper import joined
        def f(x):
            return joined(x[0] ** 2, 3 * x[1]).sum()
    """,
    "helper inside": """
        def f(x):
            from helper import joined
            return joined(x[0] ** 2, 3 * x[1]).sum()
    """,
    "class of a helper": """
        from helper import Joined
        def f(x):
            return Joined(x[0] ** 2, 3 * x[1]).sum()
    """,
    "object of a helper": """
        import helper
        JOINED = helper.Joined(0.0, 0.0)
        del helper
        def f(x):
            return JOINED.other(x[0] ** 2, 3 * x[1]).sum()
    """,
    "generator": """
        import numpy as np
        def parts(x):
            for each in (x[0] ** 2, 3 * x[1]):
                y = np.zeros(1)
                y[0] = each
                yield y
        def f(x):
            return np.concatenate(list(parts(x))).sum()
    """,
    "ndarray": """
        import numpy as np
        def f(x):
            assert isinstance(x, np.ndarray)
            y = np.ndarray(2)
            y[0], y[1] = np.float64(x[0] ** 2), 3 * x[1]
            return y.sum()
    """,
    "builtins": """
        def f(x):
            parts = [x[0] ** 2, abs(x[1]) + max(x[1], 0.0), x[1]]
            return sum(parts) + pow(x[0], 2) - min(x[0] ** 2, 1e9) + divmod(x[1], 100.0)[0]
    """,
}
HELPER = """
import numpy as np
def joined(a, b):
    out = np.zeros(2)
    out[0], out[1] = a, b
    return out
class Joined:
    def __init__(self, a, b):
        self.out = joined(a, b)
    def other(self, a, b):
        return Joined(a, b)
    def sum(self):
        return np.sum(self.out)
"""


def load(text, name):
    import textwrap

    module = types.ModuleType(name)
    module.__file__ = f"/home/user/{name}.py"
    sys.modules[name] = module
    exec(compile(textwrap.dedent(text), module.__file__, "exec"), module.__dict__)
    return module


@pytest.fixture
def loaded(request):
    both = [load(HELPER, "helper"), load(SPELLINGS[request.param], "program")]
    yield both
    for module in both:
        del sys.modules[module.__name__]


def contents(module):
    """What the names of a module hold, and what functions and classes there hold."""
    found = []
    for name, x in vars(module).items():
        found.append((name, x))
        inside = [x.items() if isinstance(x, dict) and name != "__builtins__" else ()]
        inside.append(enumerate(x) if isinstance(x, list) else ())
        if isinstance(x, types.FunctionType):
            inside.append(enumerate(x.__defaults__ or ()))
            inside.append((x.__kwdefaults__ or {}).items())
            inside.append((i, cell.cell_contents) for i, cell in enumerate(x.__closure__ or ()))
        elif getattr(x, "__module__", None) == module.__name__:
            inside.append(vars(x).items() if hasattr(x, "__dict__") else ())
        found += [(name, key, y) for each in inside for key, y in each]
    return found


def same(before, after):
    known = {each[:-1]: each[-1] for each in before}
    return all(known.get(each[:-1], each[-1]) is each[-1] for each in after)


X = numpy.array([1.5, 2.0])


@pytest.mark.parametrize("loaded", SPELLINGS, indirect=True)
@pytest.mark.parametrize("wrap", [lambda f: f, tracker.jit], ids=["plain", "compiled"])
def test_spelling(loaded, wrap):
    f = loaded[1].f
    before = [contents(module) for module in loaded]
    derivative = tracker.value_and_grad(wrap(f))
    for factor in (1.0, 1.0, 2.0):
        value, gradient = derivative(X * factor)
        assert value == f(X * factor)
        assert gradient.tolist() == [3.0 * factor, 3.0]
        assert all(map(same, before, map(contents, loaded)))
    for module in loaded:
        assert not [name for name, x in vars(module).items() if _is_ours(x)]
    assert type(f(X)) is numpy.float64 and f(X) == 8.25


def _is_ours(x):
    where = x.__name__ if isinstance(x, types.ModuleType) else type(x).__module__
    return where.startswith("tracker.numpy")


def test_what_is_assigned_to_objects_made_before_is_seen():
    p, f = numpy.polynomial.Polynomial([1.0, 2.0, 3.0]), numpy.vectorize(lambda t: 2.0 * t)

    def plain(x):
        return p(x) + numpy.sum(f(numpy.array([x, 1.0])))

    fast = tracker.jit(plain)
    for coefficients, function in (
        (p.coef, f.pyfunc),
        (numpy.array([2.0, 5.0]), f.pyfunc),
        (numpy.array([2.0, 5.0]), lambda t: t**2),
    ):
        p.coef, f.pyfunc = coefficients, function
        want = plain(0.5)
        (slope,) = tracker.testing.ngradient(plain, 0.5)
        for _ in range(2):
            assert fast(0.5) == want
            for g in (plain, fast):
                numpy.testing.assert_allclose(tracker.gradient(g, 0.5)[0], slope, rtol=1e-6)
