"""What turns tracked values into plain numbers is refused: the text names the call, the value, the
user's line, and the one thing to type instead."""

import bisect
import cmath  # noqa: F401  (in the programs)
import functools  # noqa: F401
import json
import math
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.spatial
import scipy.stats
from scipy.spatial.transform import Rotation  # noqa: F401  (in the programs)
from scipy.stats import norm  # noqa: F401

import tracker
import tracker.numpy
import tracker.scipy.interpolate
import tracker.scipy.linalg
import tracker.scipy.spatial.transform
import tracker.scipy.stats
from tracker import ConversionError, gradient, param

V = np.array([1.0, 2.0, 3.0])
PLAIN = np.zeros(3)
MODEL = SimpleNamespace(activation=math.exp, state=np.zeros(2))
SPLINE = scipy.interpolate.CubicSpline(V, V)
RNG = np.random.default_rng(0)


def line(text, **names):
    """A function of t that runs one statement."""
    code = compile(f"def program(t):\n    {text}\n", "/home/user/model.py", "exec")
    namespace = {**globals(), **names}
    exec(code, namespace)
    return namespace["program"]


SCALAR = "a tracked value of shape (), dtype float64"
ZEROS = "Make the array with np.zeros_like(t), np.zeros(n, like=t), or np.array(a)"
DATA = "Use tracker.data(t) where no gradient is wanted"
FIELDS = "Keep one array for each field, in a dict, a named tuple or a dataclass"
ITSELF = "Use t itself, or tracker.data(t) where no gradient is wanted"


def turns(call, instead):
    return f"{call} would turn {SCALAR} into plain numbers and lose its gradient. {instead}."


def stores(call, shape="(3,)", dtype="float64"):
    into = f"into a plain array of shape {shape}, dtype {dtype}" if shape else "into a plain array"
    return f"{call} would store {SCALAR} {into} and lose its gradient. {ZEROS}."


TEXTS = {
    "float(t)": turns("float(t)", ITSELF),
    "complex(t)": turns("complex(t)", ITSELF),
    "math.sqrt(t)": turns("math.sqrt", "Use np.sqrt"),
    "root = math.sqrt; root(t)": turns("math.sqrt", "Use np.sqrt"),
    "MODEL.activation(t)": turns("math.exp", "Use np.exp"),
    "math.gamma(t)": turns("math.gamma", "Use scipy.special.gamma"),
    "math.fsum([t, 1.0])": turns("math.fsum", "Use np.sum"),
    "math.nextafter(1.0, t)": turns("math.nextafter", "Use np.nextafter"),
    "math.remainder(1.0, t)": turns("math.remainder", "Use np.remainder"),
    "cmath.exp(t)": turns("cmath.exp", "Use np.exp"),
    "list(map(math.sin, [t]))": turns("float(t)", ITSELF),
    "functools.reduce(lambda a, b: a + math.sin(b), [t], 0.0)": turns("math.sin", "Use np.sin"),
    "np.array([t])": turns("numpy.array", "Use tracker.numpy.array"),
    "np.array([t, 1.0])": turns("numpy.array", "Use tracker.numpy.array"),
    "np.array([[t, 1.0], [1.0, t]])": turns("numpy.array", "Use tracker.numpy.array"),
    "xs = []; xs.append(t); xs.append(2 * t); np.array(xs)": turns(
        "numpy.array", "Use tracker.numpy.array"
    ),
    "np.asarray(t)": turns("numpy.asarray", "Use tracker.numpy.asarray"),
    "np.full(3, t)": turns("numpy.full", "Use tracker.numpy.full"),
    "np.sqrt([t, 1.0])": turns("numpy.sqrt", "Use tracker.numpy.sqrt"),
    "np.linalg.norm([t, 1.0])": turns("numpy.linalg.norm", "Use tracker.numpy.linalg.norm"),
    "np.float64(t)": turns("numpy.float64", "Use t.astype(np.float64)"),
    "PLAIN.dot(t)": turns("numpy.ndarray.dot", "Use np.dot"),
    "PLAIN.T.dot(t)": turns("PLAIN.T.dot", "Use np.dot"),
    "PLAIN[:2].searchsorted(t)": turns("PLAIN[...].searchsorted", "Use np.searchsorted"),
    "np.random.normal(t)": turns("numpy.random.normal", "Use tracker.numpy.random.normal"),
    "RNG.normal(t)": turns(
        "numpy.random.Generator.normal", "Draw from tracker.numpy.random.default_rng"
    ),
    "PLAIN[0] = t": stores("PLAIN[...] = t"),
    "PLAIN[1:] = t": stores("PLAIN[...] = t"),
    "PLAIN[[0, 1]] = t": stores("PLAIN[...] = t"),
    "PLAIN[0] += t": stores("PLAIN[...] = t"),
    "MODEL.state[1] = t": stores("MODEL.state[...] = t", "(2,)"),
    "z = np.zeros(2, complex); kept = [z]; z[0] = t": stores("z[...] = t", "(2,)", "complex128"),
    "z = np.zeros(2, 'f8,f8')['f0'][:1]; kept = [z]; z[0] = t": stores(
        "z[...] = t", "(1,)"
    ).replace(ZEROS, FIELDS),
    "[PLAIN][0][0] = t": stores("x[...] = t", ""),
    "PLAIN.fill(t)": stores("numpy.ndarray.fill"),
    "[PLAIN][0].fill(t)": stores("(...).fill", ""),
    "(math\n    .sqrt(t))": turns("(...).sqrt", DATA),  # the name begins on another line
    "np.zeros(3).fill(t)": stores("np.zeros(...).fill", ""),
    "np.add.at(PLAIN, 0, t)": stores("numpy.add.at"),
    "np.put(PLAIN, 0, t)": stores("numpy.put"),
    "np.copyto(PLAIN, t)": stores("numpy.copyto"),
    "np.add(t, 1.0, out=np.zeros(()))": stores("numpy.add", "()"),
    "np.multiply(V * t, 2.0, out=PLAIN)": stores("numpy.multiply").replace("()", "(3,)", 1),
    "np.sum(t, out=np.zeros(()))": stores("numpy.sum", "()"),
    "np.ma.masked_array([1.0], [1]) * t": turns(
        "numpy.ma.MaskedArray.__mul__",
        "Keep the mask beside the array: np.where(mask, 0.0, t), np.sum(t, where=~mask)",
    ),
    "np.rec.fromarrays([t, t])": turns("numpy.rec.fromarrays", FIELDS),
    "scipy.integrate.RK45(lambda x, y: -t * y, 0.0, PLAIN, 1.0)": turns(
        "scipy.integrate.RK45", "Use scipy.integrate.solve_ivp, whose solution is differentiable"
    ).replace("()", "(3,)"),
    "scipy.integrate.ode(lambda x, y: -y).set_initial_value([t])": turns(
        "scipy.integrate.ode.set_initial_value",
        "Use scipy.integrate.solve_ivp, whose solution is differentiable",
    ),
    "scipy.spatial.ConvexHull([[t, 0.0], [1.0, 0.0], [0.0, 1.0]])": turns(
        "scipy.spatial.ConvexHull",
        "Give it tracker.data(points), and compute with the points that it names: "
        "points[hull.vertices]",
    ),
    "scipy.stats.zscore(t)": turns("scipy.stats.zscore", "Use tracker.scipy.stats.zscore"),
    "scipy.stats.norm.logpdf(t)": turns(
        "scipy.stats.norm.logpdf", "Use tracker.scipy.stats.norm.logpdf"
    ),
    "norm.logpdf(t)": turns("scipy.stats.norm.logpdf", "Use tracker.scipy.stats.norm.logpdf"),
    "Rotation.from_rotvec([t, t, t])": turns(
        "scipy.spatial.transform.Rotation.from_rotvec",
        "Use tracker.scipy.spatial.transform.Rotation.from_rotvec",
    ),
    "scipy.stats.norm(t).pdf(1.0)": turns(
        "scipy.stats._distn_infrastructure.rv_continuous_frozen.pdf", "Use tracker.scipy.stats"
    ),
    "scipy.linalg.cholesky([[t]])": turns(
        "scipy.linalg.cholesky", "Use tracker.scipy.linalg.cholesky"
    ),
    "SPLINE(t)": turns(
        "scipy.interpolate.CubicSpline", "Use tracker.scipy.interpolate.CubicSpline"
    ),
}


@pytest.mark.parametrize("program", TEXTS)
def test_the_text_names_the_call_and_what_to_type(program):
    run = line(program)
    for value in (2.0, np.float64(2.0)) * 8:  # the interpreter specialises what runs often
        with pytest.raises(ConversionError) as caught:
            run(param(value))
        last = 2 + program.count("\n")
        assert str(caught.value) == f"{TEXTS[program]} (at /home/user/model.py:{last})"
        assert caught.value.__cause__ is None
    assert not PLAIN.any() and not MODEL.state.any()  # nothing was stored


@pytest.mark.parametrize(
    "program",
    [
        "tracker.numpy.array([t, 1.0])",
        "tracker.numpy.asarray(t)",
        "tracker.numpy.full(3, t)",
        "tracker.numpy.sqrt([t, 1.0])",
        "tracker.numpy.linalg.norm([t, 1.0])",
        "tracker.numpy.random.normal(t)",
        "t.astype(np.float64)",
        "np.dot(PLAIN, t)",
        "np.nextafter(1.0, t)",
        "tracker.scipy.stats.zscore(np.array([1.0, 2.0], like=t) * t)",
        "tracker.scipy.stats.norm.logpdf(t)",
        "tracker.scipy.interpolate.CubicSpline(V, V)(t)",
    ],
)
def test_what_the_text_says_works(program):
    assert gradient(line(f"return np.sum({program})"), 2.0)[0] is not None


def test_ufuncs_have_numpys_names_under_a_derivative():
    with pytest.raises(ConversionError, match=r"^numpy\.multiply would store"):
        gradient(lambda x: np.sum(np.multiply(x, 2.0, out=PLAIN)), V)


def test_shapes_and_dtypes_are_the_values():
    with pytest.raises(ConversionError, match=r"shape \(3,\), dtype float32 into plain numbers"):
        np.asarray(param(V.astype(np.float32)))
    with pytest.raises(ConversionError, match=r"value of shape \(2,\), dtype float64 into a plain"):
        PLAIN[0] = param(V[:2])


LIBRARY = '''
import numpy as np
import tracker

class Series:
    """A class of another package, which converts what it is given."""

    def __init__(self, x):
        self.x = np.asarray(x)

    def to_numpy(self):
        return self.x

    def __mul__(self, other):
        return Series(self.x * other)

    def __setitem__(self, key, value):
        self.x[key] = value

    __array_ufunc__ = None

def scaled(x):
    return _twice(x)

def _twice(x):
    return [float(x), float(x)]

def applied(f, x):
    return f(x)

def slope(f, x):
    return tracker.gradient(f, x)
'''


@pytest.fixture
def frames(tmp_path, monkeypatch):
    """An installed package."""
    package = tmp_path / "site-packages" / "frames"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from frames._core import *\n")
    (package / "_core.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(package.parent))
    import frames

    yield frames
    for name in ("frames", "frames._core"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    "program, want",
    [
        (
            "frames.Series(V) * t",
            r"frames\.Series\.__mul__ would turn .*Use its \.to_numpy\(\), as a Series holds plain",
        ),
        ("frames.Series(V)[0] = t", r"frames\.Series\.__setitem__ would store .* has its code"),
        ("frames.Series(t)", r"frames\.Series would turn .*Use tracker\.data\(t\) where no"),
        (
            "frames.scaled(t)",
            r"frames\.scaled would turn .*\. tracker\.config\(plain=\('frames',\)\) has its code "
            r"count as yours\. Use tracker\.data\(t\) where no",
        ),
        (
            "tracker.config(plain=('abc', 'frames')); frames.scaled(t)",
            r"frames\.scaled would turn [^.]*\. Use tracker\.data",
        ),
        (
            "tracker.config(plain=('abc',)); frames.scaled(t)",
            r"tracker\.config\(plain=\('abc', 'frames'\)\)",
        ),
        ("f = frames.scaled; f(t)", r"frames\.scaled would turn"),
        ("[frames.scaled][0](t)", r"frames\.scaled would turn"),
        ("frames.applied(math.sin, t)", r"frames\.applied would turn"),
        ("frames.applied(lambda t: math.sin(t), t)", r"math\.sin would turn .*Use np\.sin"),
    ],
)
def test_other_packages_are_named_at_the_users_line(frames, program, want):
    with tracker.config(), pytest.raises(ConversionError, match=want) as caught:
        line(program, frames=frames)(param(2.0))
    assert str(caught.value).endswith("(at /home/user/model.py:2)")


def test_all_messages_stand_at_the_users_line(frames):
    with pytest.raises(tracker.NotScalarError, match=r"\(at /home/user/model\.py:2\)"):
        line("frames.slope(np.cumsum, t)", frames=frames)(V)


def test_installed_code_without_a_user_is_named_itself(frames):
    """Called by no file of the user's: the innermost line that is not ours."""
    code = compile("frames.scaled(t)", "/usr/lib/site-packages/app/main.py", "exec")
    with pytest.raises(ConversionError, match=r"\(at .*test_conversion_errors\.py:\d+\)"):
        exec(code, {"frames": frames, "t": param(2.0)})


def fail_to_store(t):
    PLAIN[0] = t


def convert(t):
    float(t)


FAILURES = {
    "store": fail_to_store,
    "fill": PLAIN.fill,
    "float": convert,
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_failure_leaves_sequences_as_they_were(name, in_thread):
    """The error itself arrives, not NumPy's about a sequence; and the class stays a sequence."""
    t, shapes, before = param(V), [], []

    def program():
        before.append(sys.gettrace())
        for _ in range(2):
            try:
                FAILURES[name](t[0])
            except ConversionError:
                assert bisect.bisect(t, 1.5) == 1
                assert [tracker.data(x) for x in reversed(t)] == [3.0, 2.0, 1.0]
            gradient(lambda n: shapes.append(np.zeros(n).shape) or n[0] * 1.0, np.array([2, 3]))
        before.append(sys.gettrace())

    if in_thread:
        thread = threading.Thread(target=program)
        thread.start()
        thread.join()
    else:
        program()
    assert shapes == [(2, 3)] * 2 and before[0] is before[1]


def test_a_debugger_goes_on():
    """Its trace function sees the frame's later lines, and those of later calls."""
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code in (watched.__code__, convert.__code__):
            seen.append((frame.f_code.co_name, event))
            return tracer
        return None

    def watched(t):
        with pytest.raises(ConversionError):
            PLAIN[0] = t
        convert(2.0)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        watched(param(1.0))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert ("watched", "exception") in seen
    assert seen[-3:] == [("convert", "line"), ("convert", "return"), ("watched", "return")]


@pytest.mark.parametrize("derivative", [gradient, tracker.withgradient, tracker.pullback])
def test_within_derivatives(derivative):
    with pytest.raises(ConversionError, match=r"PLAIN\[\.\.\.\] = t would store"):
        derivative(line("PLAIN[0] = t; return t * 2"), 2.0)
    assert not PLAIN.any()


DERIVATIVES = [
    tracker.gradient,
    tracker.hessian,
    lambda f, x: tracker.jvp(f, (x,), (x,)),
    lambda f, x: tracker.pullback(f, x),
    lambda f, x: tracker.jacobian(lambda x: f(x) * x, x),
    lambda f, x: tracker.gradient(lambda x: tracker.gradient(f, x)[0].sum(), x),
]


@pytest.mark.parametrize("derive", DERIVATIVES)
def test_what_no_derivative_follows_any_more_is_plain(derive, tmp_path):
    kept = []

    def loss(x):
        kept[:] = [np.sum(x**3), x * x]
        with pytest.raises(ConversionError):
            float(kept[0])
        with pytest.raises(ConversionError):
            float(kept[1][0])
        return kept[0]

    derive(loss, V)
    number, array = kept
    assert math.sqrt(number) == 6.0
    assert {36.0: "hashed"}[number] == "hashed"
    assert number.item() == 36.0
    assert json.dumps(array.tolist()) == "[1.0, 4.0, 9.0]"
    assert len(array.tobytes()) == 24
    plain = np.zeros(3)
    plain[:2] = [number, 1.0]
    plain[2] = number
    np.testing.assert_equal(plain, [36.0, 1.0, 36.0])
    assert type(plain[1:] + 0.0) is np.ndarray
    np.save(tmp_path / "kept.npy", array)
    np.testing.assert_equal(np.load(tmp_path / "kept.npy"), V * V)


def test_what_an_outer_derivative_follows_is_not():
    kept = []

    def outer(x):
        tracker.gradient(lambda y: kept.append(x * y) or y, 2.0)
        with pytest.raises(ConversionError):
            float(kept[0])
        return x

    tracker.gradient(outer, 3.0)
    assert float(kept[0]) == 6.0
