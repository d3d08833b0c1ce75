"""What jitted functions take, give, capture and change, and how they behave as objects."""

import collections
import dataclasses
import itertools
import math
import operator

import numpy as np
from side_by_side import each, program
from unusual import read_only

from tracker import gradient, jit

Pair = collections.namedtuple("Pair", "left right")

A, ROW = np.linspace(-1.0, 2.0, 40), np.arange(3.0)
PLAIN = "runs in plain Python"


@dataclasses.dataclass
class Model:
    w: np.ndarray
    b: float
    name: str = "model"

    @jit
    def predict(self, x):
        return np.tanh(x @ self.w + self.b)

    def plain(self, x):
        return np.tanh(x @ self.w + self.b)


class Special(np.ndarray):
    pass


def _lists_of_arrays(k):
    return {"w": A * k, "b": k}, Pair(A[:3] * k, k)


def by_identity(x, y):
    return x * y if x is y else x + y


def one_or_two_arrays():
    """Of two arrays, and of an array and a number."""
    b = A + 1
    calls = ((A, b), (A, A), (b, A), (b, b), (lambda: (a := A.copy(), a[:])), (A, 2.0))
    return program(*calls, traces=2, warns="")


def _locked():
    return np.arange(3.0), read_only(np.arange(3.0))


class Programs:
    @program(*map(_lists_of_arrays, (1.0, 2.0, 3.0)))
    def nested_structures(p, q):
        return {"a": [p["w"] * 2, (p["b"], q.left)], "b": Pair(q.right + 1.0, None)}, "text"

    @program((A, np.sin, "double"), (A, np.cos, "double"), (A, np.sin, "single"))
    def text_and_functions(x, function, how, nothing=None):
        assert nothing is None
        return function(x) * (2.0 if how == "double" else 1.0)

    @program(Model(A, 0.5, "other"))
    def a_dataclass(m):
        return Model(m.w * 2, m.b)

    @program(ROW.view(Special))
    def an_array_of_another_class(x):
        return x * 2

    @program(2**70, "ab", np.array([1, "a"], object), warns=PLAIN)
    def big_ints_text_and_objects(x):
        return x * 2

    @program((A, A), lambda: (a := A.copy(), a))
    def the_same_array_twice(x, y):
        return x * y, x + 1

    @program((A, A), lambda: (a := A.copy(), a))
    def gradients_in_the_same_array_twice(x, y):
        return gradient(lambda a, b: np.sum(a * b * b), x, y)

    identity = one_or_two_arrays()(by_identity)
    identity_in_a_helper = one_or_two_arrays()(lambda x, y: by_identity(x, y))
    not_identity = one_or_two_arrays()(lambda x, y: x * y if x is not y else x)
    identity_by_a_function = one_or_two_arrays()(lambda x, y: x * y if operator.is_(x, y) else x)
    identity_in_a_loop = one_or_two_arrays()(
        lambda x, y: sum(a * 2 if a is y else a for a in (x, y, x))
    )

    @program((A, 2.0), (A * 2, 3.0))
    def results_that_are_arguments_and_constants(x, y):
        return x, y, None, "text", 3, x, y * 2

    @program(A)
    def the_same_result_twice(x):
        y = np.sin(x)
        return y, [y], np.sin(x), y[2:5]

    @program((np.arange(6.0).reshape(2, 3), 0), (np.arange(6.0).reshape(2, 3), 1))
    def views_that_depend_on_values(x, i):
        return x[[0, 1]], x[x > 0], np.sum(x[i])

    @program(
        *[ROW],
        state={"w": np.ones(3), "big": np.ones(100), "tiny": np.array(2.0)},
        changes=[lambda s, k=k: (s.w.fill(k), s.big.fill(2 * k), s.tiny.fill(3 * k)) for k in (2, 0)],
        traces=1,
    )
    def captured_arrays(x, s):
        return x * s.w + np.sum(s.big * x[1]) * (x[2] * s.tiny)

    @program(A, A * 2, A - 1)
    def arrays_made_in_the_body(x):
        t = np.linspace(0.0, 1.0, 40)
        buffer = np.zeros(3)
        total = 0.0
        for i in range(3):
            buffer[:] = i  # scratch paper: another content for each read
            total = total + np.sum(buffer * x[:3])
        return np.sin(t * x) + total, np.arange(3.0) * x[0]

    @program((70, 2.0), (3, 2.0), warns=PLAIN)
    def an_int_that_outgrows_64_bits(n, x):
        return (2**n) * x

    @program(([1.0, 2.0, 3.0], 2), warns="cannot be traced: TypeError: Expected int as r")
    def a_function_in_c_that_takes_ints_alone(xs, n):
        return sum(a * b for a, b in itertools.permutations(xs, n))

    the_wrong_type_in_c = program(2, eager=0)(lambda x: math.gcd(x, "a"))
    no_length = program(2, eager=0)(lambda x: len(x))
    no_text = program(2, eager=0)(lambda x: "a".join([x]))

    @program(
        *[ROW],
        state=lambda: {"c": {"k": 2.0, "b": np.ones(3), "l": [1, 2], "s": {1}}},
        changes=[
            lambda s: s.c.update(k=3.0),
            lambda s: s.c["l"].append(3),
            lambda s: s.c.update(b=np.zeros(3)),
            lambda s: s.c["b"].__setitem__(0, 5.0),
        ],
        warns=PLAIN,
    )
    def a_static_dict(x, s):
        def f(x, c):
            c["count"] = c.get("count", 0) + 1
            return x * c["k"] + c["b"] + len(c["l"]) + c["count"]

        return f(x, s.c)


@each(Programs)
def test_programs(row):
    row.check()
