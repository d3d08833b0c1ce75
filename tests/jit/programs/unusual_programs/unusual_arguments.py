"""Strange programs: unusual arguments, writes and results."""

import collections
import dataclasses
import enum
import fractions
import tempfile
import typing
import warnings

import numpy as np
from unusual import M, V, program, read_only, table, unaligned


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@dataclasses.dataclass
class State:
    x: np.ndarray
    t: float
    name: str = "state"
    flags: tuple = (True, None)


@dataclasses.dataclass(frozen=True)
class Fixed:
    w: np.ndarray
    n: int


@dataclasses.dataclass
class Oscillator:
    mass: float
    stiffness: float

    def __post_init__(self):
        self.frequency = (self.stiffness / self.mass) ** 0.5


@dataclasses.dataclass(frozen=True)
class Gaussian:
    mean: np.ndarray
    scale: dataclasses.InitVar[float]

    def __post_init__(self, scale):
        object.__setattr__(self, "scale", scale**2)


class Point(typing.NamedTuple):
    x: float
    y: float = 2.0


def _matrix():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix([[1.0, 2.0], [3.0, 4.0]])


class Own(np.ndarray):
    pass


def _memmap():
    with tempfile.TemporaryFile() as file:
        out = np.memmap(file, dtype="f8", shape=3, mode="w+")
    out[:] = V
    return out


_RECORDS = np.zeros(3, [("x", "f8"), ("n", "i2"), ("y", ">f4", (2,))])
_RECORDS["x"] = V
_RECORDS["y"] = M.T
_LAYOUTS = [
    V.astype(">f8"),
    unaligned(V),
    read_only(V),
    V[::-1],
    np.repeat(V, 2)[::2],
    np.asfortranarray(M),
    M.T,
    M[:, ::2],
    np.broadcast_to(V, (2, 3)),
    np.float64(0.5),
    np.array(0.5),
    np.zeros((0,)),
    np.zeros((0, 3)),
    np.zeros((2, 0)),
    V.astype("f2"),
    V.astype("f4"),
    V.astype("g"),
    np.array([True, False]),
    np.array([1, 2, 3], "i1"),
    np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3),
    _RECORDS["x"],
    _RECORDS["x"][::-1],
    _RECORDS["y"],
    unaligned(M)[::-1, ::2],
    unaligned(M.astype(">f4")),
]


@table
class Arguments:
    @program((V, Colour.RED), (V, Colour.BLUE), (V, Colour.RED))
    def enums(x, c):
        return np.sum(x) if c is Colour.RED else x[0] * c.value

    @program((V, Level.LOW), (V, Level.HIGH))
    def int_enums(x, level):
        return np.sum(x) * level if level > Level.LOW else x[level]

    @program((V, None), (V, 2.0), (V, "text"), (V, None))
    def none_or_number_or_text(x, w):
        if w is None:
            return np.sum(x)
        if isinstance(w, str):
            return x[len(w) % 3]
        return np.sum(x * w)

    @program((V, True), (V, False), (V, np.True_), (V, np.False_))
    def flags(x, flag):
        return np.sum(x) if flag else x[0] * 2

    @program(
        (State(V, 0.5),), (State(V * 2, -0.5, "other"),), (State(V, 1, "state", (False, None)),)
    )
    def dataclass_in(s):
        return np.sum(s.x) * s.t if s.name == "state" and s.flags[0] else s.x[0] + s.t

    @program((State(V, 0.5),), (State(V * 2, 1.5),))
    def dataclass_replace(s):
        s = dataclasses.replace(s, t=s.t * 2)
        return np.sum(s.x) * s.t

    @program((Fixed(V, 2),), (Fixed(V, 3),))
    def frozen_dataclass(s):
        return np.sum(s.w**s.n)

    @program((Oscillator(2.0, 3.0), V), (Oscillator(4.0, 1.0), V * 2))
    def attribute_of_post_init(s, t):
        return np.sum(np.cos(s.frequency * t)) * s.mass

    @program((Oscillator(2.0, 3.0),), (Oscillator(4.0, 1.0),))
    def dataclasses_out(s):
        heavier = dataclasses.replace(s, mass=s.mass * 2)
        s.frequency = s.frequency + 1.0
        return heavier, Oscillator(s.frequency, s.mass), s

    @program((Gaussian(V, 0.5), 2.0), (Gaussian(V, 1.5), 3.0))
    def frozen_dataclass_out(s, k):
        return Gaussian(s.mean * s.scale, k), s

    @program((Point(0.5),), (Point(1.5, 3.0),))
    def named_tuple(p):
        x, y = p
        return (x * y + p.x) / p._replace(x=2.0).x

    @program(({"a": V, "b": [1.0, (V * 2, 3)]},), ({"a": V * 2, "b": [2.0, (V, 4)]},))
    def nested_structure(p):
        b, (v, n) = p["b"]
        return np.sum(p["a"] * v) * b + n

    @program((collections.OrderedDict(b=V, a=2.0),), (collections.OrderedDict(b=V * 3, a=1.0),))
    def ordered_dict(p):
        return sum(np.sum(v) * k for k, v in enumerate(p.values(), 1))

    @program((collections.defaultdict(float, a=2.0),))
    def default_dict(p):
        return p["a"] * 2 + p["missing"]

    @program((collections.deque([1.0, 2.0, 3.0]),), (collections.deque([2.0, 2.0, 3.0]),))
    def a_deque(d):
        return d[0] * d[-1]

    @program(({1.0, 2.0},), ({1.0, 3.0},))
    def a_set(s):
        return sum(s)

    @program((range(3),), (range(4),))
    def a_range(r):
        return sum(2.0 * k for k in r)

    @program((slice(0, 2),), (slice(1, 3),))
    def a_slice(s):
        return np.sum(V[s])

    @program((V, np.float32), (V, np.float64))
    def a_dtype(x, kind):
        return np.sum(x.astype(kind))

    @program((fractions.Fraction(1, 3), V), (fractions.Fraction(2, 3), V))
    def a_fraction(q, x):
        return np.sum(x) * float(q)

    @program((2**70,), (2**71,), (3,))
    def big_ints(n):
        return n % 1000 + n // 7

    @program((np.float32(1.5), V), (np.float32(2.5), V), (np.float32(1.5), V.astype("f4")))
    def float32_scalars(s, x):
        return np.sum(x * s) + s

    @program((1 + 2j,), (3 - 1j,))
    def python_complex(z):
        return abs(z * z.conjugate() + z.real) + z.imag

    @program((np.complex64(1 + 2j),), (np.complex64(3 - 1j),))
    def numpy_complex(z):
        return np.abs(z * np.conj(z)) + z.imag

    @program((np.int32(3), V), (np.int32(4), V))
    def numpy_ints(n, x):
        return np.sum(x) * n + n // 2

    @program((np.uint8(250),), (np.uint8(3),))
    def small_ints_wrap(n):
        return n + np.uint8(3), n * np.float32(2)

    @program((np.int8(5), 3), (np.int8(-5), 3))
    def int_arithmetic(a, b):
        return a % b, a // b, a & b, a | b, a ^ b, -a, ~a, divmod(int(a), b)

    @program((7, 2), (-7, 2), (7, -2))
    def python_int_arithmetic(a, b):
        return a % b, a // b, a & b, a | b, a ^ b, -a, ~a, a**2, a / b, a << 2, a >> 1

    @program((True, 2), (False, 3))
    def bools_are_ints(a, n):
        return a + n, a * 2.0, -a if a else n

    @program((np.datetime64("2020-01-01"),))
    def dates(d):
        return d + np.timedelta64(1, "D")

    @program((np.array(["a", "b"]), 2.0), (np.array(["b", "b"]), 2.0))
    def text_arrays(names, x):
        return x * np.sum(names == "b")

    @program((np.array([1, "a", None], object),))
    def object_arrays(x):
        return len(x)

    @program((np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),))
    def structured_arrays(r):
        return r["b"] * 2

    @program((_matrix(),), (V.view(Own),), (np.ma.array(V, mask=[0, 1, 0]),), ((V * 2).view(Own),))
    def arrays_of_other_classes(x):
        return x.sum() * 2, x * x, x * 3

    @program((_memmap(),), (_memmap(),))
    def memory_mapped(x):
        return np.sum(x**2)

    @program(*[(x,) for x in _LAYOUTS])
    def layouts(x):
        return np.sum(x * 2.0), x + x

    @program(*[(x,) for x in _LAYOUTS[:14]])
    def layouts_to_a_loss(x):
        return np.sum(np.tanh(x) * 2.0 + np.sum(x))

    @program(*[(x.copy("K") if i else x.copy(),) for i, x in enumerate(_LAYOUTS[:9])])
    def layouts_written(x):
        x[..., 0] = 5.0
        x *= 2
        return np.sum(x)

    @program(*[(x,) for x in _LAYOUTS if x.ndim])
    def layouts_seen_again(x):
        return x, x[..., ::-1], x[-1:], {"flat": x.T}

    # Aliasing and writes --------------------------------------------------------------------------

    @program((V, V * 2), (V * 3, V))
    def writes_one_argument(x, y):
        x[1:] = y[:-1] * 2
        return np.sum(x * y)

    def writes_through_views(x):
        a = x[1:]
        a += 1
        b = x.reshape(3, 1)
        b[0] = 7.0
        return np.sum(x * a[0])

    @program(([V, V * 2],), ([V * 2, V],))
    def changes_a_list(xs):
        xs.append(xs[0] + xs[1])
        xs[0] = xs[1] * 2
        return np.sum(xs[0]) + np.sum(xs.pop())

    @program(({"a": V},), ({"a": V * 2},))
    def changes_a_dict(p):
        p["b"] = p["a"] * 2
        del p["a"]
        return np.sum(p["b"])

    def swaps(x):
        x[0], x[1] = x[1], x[0]
        return x[0] * x[2]

    def out_arguments(x):
        y = np.empty_like(x)
        np.multiply(x, 2, out=y)
        np.add(y, x, out=y)
        return y @ x

    @program((M,), (M * 2,))
    def in_place_methods(x):
        x = x.copy()
        x.sort(axis=1)
        x.T[0] = 3.0
        np.fill_diagonal(x, 1.0)
        return np.sum(x**2)

    # Results of other kinds --------------------------------------------------------

    def returns_everything(x):
        return (
            x,
            x[0],
            x[1:],
            float(len(x)),
            None,
            "text",
            np.sum,
            {"a": [x * 2], "b": ()},
            Point(x[0], 3.0),
            State(x * 2, 1.0),
            x.shape,
            x.dtype,
            np.array([1, 2]),
            Colour.RED,
            x > 0,
            np.argmax(x),
            slice(None),
        )

    def returns_nothing(x):
        x * 2

    @program((2.0,), (3.0,))
    def returns_python_numbers(x):
        return x * 2, int(x), x > 1, bool(x > 1), x.is_integer(), x.hex()

    def array_methods(x):
        return x.mean() + x.std() + x.cumsum()[-1] + x.clip(0, 1).sum() + x.dot(x) + x.argmax()

    def types_are_asked(x):
        y = x.sum()
        assert isinstance(x, np.ndarray) and x.dtype == np.float64
        return y * 2 if np.isscalar(2.0) and isinstance(3, int) else y

    @program((2.0,), (3.0,))
    def floats_are_asked(x):
        assert isinstance(x, (float, np.ndarray)) or np.ndim(x) == 0
        return x**2 + x**0.5 + 2**x + x // 1 + x % 0.7 + divmod(x, 0.7)[0] - +x

    @program((V, [0, 2]), (V, [1, 1]), (V, [2, 0]))
    def lists_of_ints(x, places):
        return x[places].sum() + len(places)

    @program((V, np.array([0, 2])), (V, np.array([1, 1])))
    def arrays_of_ints(x, places):
        return x[places].sum() + places.max()

    @program(([0.5, -1.0],), ([2.0, 1.0],))
    def lists_of_floats(xs):
        return xs[0] * xs[1] + len(xs)

    @program(([0.5, -1.0],), ([2.0, 1.0],))
    def lists_to_numpy(xs):
        return np.sum(np.array(xs) ** 2)

    @program(((),), ([],), ({},))
    def empty_structures(p):
        return len(p) + 1.0
