"""Functions that change what they read: attributes, globals, closures, items of containers. What a
call leaves behind is what the plain function leaves, and machine code leaves it."""

import dataclasses
import gc
import math
import sys
import threading
import types
import warnings
from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest
from jit_programs import assert_same

import tracker as tr
from tracker import jit
from tracker.jit import callable as native
from tracker.standing import HANDLES

table = {"x": 1.0, "v": np.ones(2)}
calls = 0


@pytest.fixture(autouse=True)
def _no_plain_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


class Adam:
    def __init__(self):
        self.m, self.v, self.count, self.lr = np.zeros(3), np.zeros(3), 0, 0.1

    def step(self, p, g):
        self.count += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.99 * self.v + 0.01 * g * g
        scale = np.sqrt(self.v / (1 - 0.99**self.count)) + 1e-8
        return p - self.lr * (self.m / (1 - 0.9**self.count)) / scale


class Slots:
    __slots__ = ("a", "n")

    def __init__(self):
        self.a, self.n = np.ones(3), 0

    def step(self, x):
        self.n += 1
        self.a = self.a * x[0] + self.n
        return self.a


class Behind:
    """A property, a hook of every assignment, names as text."""

    def __init__(self):
        self.__dict__.update(_a=np.ones(3), n=0, last=0.0, other=0)

    @property
    def a(self):
        return self._a

    @a.setter
    def a(self, x):
        self._a = x
        self.n += 1

    def __setattr__(self, name, x):
        object.__setattr__(self, name, x)
        object.__setattr__(self, "last", self.last + 1.0)

    def step(self, x):
        self.a = self.a * x
        setattr(self, "other", getattr(self, "other") + 2)  # noqa: B009, B010
        self.__dict__["made"] = x[0]
        return self.a + self.last


class Lent:
    """What the class lends is the object's own once it was put there."""

    on, n, w = False, 0, np.ones(3)

    def step(self, x):
        self.on, self.n = not self.on, self.n + 1
        self.w = self.w + x
        return self.w * 2 if self.on else self.w + self.n


@dataclasses.dataclass
class Record:
    x: float = 1.0
    v: object = dataclasses.field(default_factory=lambda: np.ones(3))

    def step(self, x):
        self.x += x[0]
        self.v = self.v * self.x
        return self.v


class Nested:
    def __init__(self):
        self.layers = [Slots(), Slots()]
        self.pair, self.named = (np.zeros(3), 1.0), {"m": np.zeros(3), "k": [1.0, 2]}
        self.window, self.rows = [0.0, 0.0, 0.0], [[1.0, 2.0], [np.ones(3)]]

    def step(self, x):
        for layer in self.layers:
            layer.step(x)
        a, b = self.pair
        self.pair = a + x, b * 2
        self.named = {"m": self.named["m"] + x, "k": [k + 1 for k in self.named["k"]]}
        self.rows[0][1] += x[0]
        self.rows[1][0] = self.rows[1][0] * x
        self.window.append(x[1])
        self.window.pop(0)
        return self.pair[0] * self.named["m"] + sum(self.window)


class Types:
    def __init__(self):
        self.f, self.c, self.z, self.h = np.float32(1), 1 + 2j, np.array(3.0), np.ones(2, "f4")

    def step(self, x):
        self.f = self.f * np.float32(1.5)
        self.c = self.c * 1j
        self.z = self.z + x[0]
        self.h = self.h[::-1] * self.f
        return self.z * x


class Trained:
    def __init__(self):
        self.w, self.b, self.steps, self.loss = np.ones(3), 0.5, 0, None

    def step(self, x):
        def loss(w, b):
            return (np.sum(x * w) + b - 1.0) ** 2

        self.loss, (gw, gb) = tr.withgradient(loss, self.w, self.b)
        self.w, self.b, self.steps = self.w - 0.01 * gw, self.b - 0.01 * gb, self.steps + 1
        return self.loss


class Buffered:
    """A place in a buffer moves on; now and then something else is done."""

    def __init__(self):
        self.buffer, self.at, self.best = np.zeros(4), 0, 0.0

    def step(self, x):
        self.buffer[self.at % 4] = x[0]
        self.at += 1
        if self.at % 3 == 0:
            self.best = np.max(self.buffer)
        return np.sum(self.buffer) + self.best


class Moved:
    """What was here stands there, and the other way round."""

    def __init__(self):
        self.a, self.b, self.old, self.new = np.ones(3), np.zeros(3), None, None

    def step(self, x):
        self.a, self.b = self.b, self.a
        self.a = self.a + x
        self.old, self.new = self.new, x
        return self.a - self.b


class Counted:
    """Containers of the standard library."""

    def __init__(self):
        self.sums, self.order = defaultdict(float), OrderedDict(a=1.0, v=np.zeros(3))
        self.last, self.queue = deque([0.0, 0.0], maxlen=2), deque([np.ones(3)])

    def step(self, x):
        self.sums["x"] += np.sum(x)
        self.sums["n"] += 1
        self.order["v"] = self.order["v"] + x
        self.order["z"] = x[0]
        self.last.append(x[1])
        self.queue.append(self.queue.popleft() * x)
        self.queue.append(x)
        self.queue.pop()
        return x * self.sums["n"] + sum(self.last) + self.queue[0]


class State(NamedTuple):
    x: object
    v: object
    n: int = 0


class Named:
    """A named tuple takes the place of another."""

    def __init__(self):
        self.state = State(np.zeros(3), np.ones(3))

    def step(self, x):
        self.state = self.state._replace(v=self.state.v + x)
        self.state = State(self.state.x + self.state.v, self.state.v, self.state.n + 1)
        return self.state.x * self.state.n


@dataclasses.dataclass(frozen=True)
class Body:
    x: object
    v: object
    spin: object = None
    n: int = 0

    @property
    def energy(self):
        return np.sum(self.v**2)


class Simulated:
    """A frozen dataclass takes the place of another, and of one inside of it."""

    def __init__(self):
        self.body, self.before = Body(np.zeros(3), np.ones(3), Body(np.ones(3), 1.0)), None

    def step(self, x):
        old = self.body
        v = old.v + 0.1 * x
        spin = dataclasses.replace(old.spin, x=old.spin.x * 1.1)
        self.before = old
        self.body = dataclasses.replace(old, x=old.x + 0.1 * v, v=v, spin=spin, n=old.n + 1)
        return self.body.x * self.body.n + self.body.energy * self.before.spin.x


@dataclasses.dataclass
class Pose:
    x: object
    v: object
    n: int = 0

    def moved(self, x):
        return Pose(self.x + 0.1 * self.v, self.v + x, self.n + 1)


class Posed:
    """A dataclass that can be changed takes the place of another, which goes elsewhere."""

    def __init__(self):
        self.pose, self.before = Pose(np.zeros(3), np.ones(3)), Pose(np.ones(3), np.ones(3))

    def step(self, x):
        self.before, self.pose = self.pose, self.pose.moved(x)
        self.pose.v = self.pose.v * 0.9
        return self.pose.x * self.pose.n + self.before.v


MACHINES = [
    *(Adam, Slots, Behind, Lent, Record, Nested, Types, Trained, Buffered, Moved, Counted),
    *(Named, Simulated, Posed),
]


def _shown(machine):
    if isinstance(machine, (Body, Pose)):
        return vars(machine)
    if isinstance(machine, (list, tuple, deque)):
        return [_shown(x) for x in machine]
    if isinstance(machine, dict):
        return {name: _shown(x) for name, x in machine.items()}
    if type(machine) not in MACHINES:
        return machine
    names = getattr(machine, "__slots__", None) or vars(machine)
    return {name: _shown(getattr(machine, name)) for name in names}


def _called(step, machine, x):
    return step(machine, x + 1.0, x) if type(machine) is Adam else step(machine, x)


@pytest.mark.parametrize("cls", MACHINES)
def test_a_method_that_changes_its_object(cls):
    one, other, step = cls(), cls(), jit(cls.step)
    for k in range(1, 12):
        x, y = np.array([0.1, -0.2, 0.3]) * k, np.array([0.1, -0.2, 0.3]) * k
        want, got = _called(cls.step, one, x), _called(step, other, y)
        assert_same(got, want)
        assert_same(_shown(other), _shown(one))
        if k in (3, 6, 8) and cls is Adam:  # the user decays the rate
            one.lr = other.lr = one.lr / 2
    info = step.cache_info()
    assert info.eager == 0 and info.slow <= 7
    assert native.entries(step)
    assert not HANDLES and type(Lent.w) is np.ndarray


def _globals(x):
    global calls
    calls += 1
    table["x"] = table["x"] + x[0]
    table["v"] = table["v"] * x[0]
    return table["v"] * calls


def test_globals():
    global calls
    step, found = jit(_globals), []
    for f in (_globals, step):
        calls = 0
        table.update(x=1.0, v=np.ones(2))
        found.append([(f(np.ones(1) * k), dict(table), calls) for k in range(1, 8)])
    assert_same(*found)
    assert step.cache_info() == (1, 1, 3, 0) and type(calls) is int


def _makes_a_global(x):
    global made_here
    made_here = x + 1.0
    return x * made_here


def _adds_to_a_global(x):
    global made_here
    try:
        made_here = made_here + x
    except NameError:
        made_here = x * 1.0
    return made_here


def _gives_a_library_a_name(x):
    math.made_here = x + 1.0
    return x * math.made_here


@pytest.mark.parametrize(
    ("f", "space"),
    [
        (_makes_a_global, globals()),
        (_adds_to_a_global, globals()),
        (_gives_a_library_a_name, vars(math)),
    ],
)
def test_names_that_are_not_there_before_the_first_call(f, space):
    found = []
    for g in (f, jit(f)):
        shown = []
        for k in range(6):
            shown += g(np.ones(2) * k), space["made_here"]
            if k == 3:
                del space["made_here"]
        found.append(shown)
        del space["made_here"]
    assert_same(*found)


def test_closures():
    def made():
        n, total = 0, np.zeros(2)

        def f(x):
            nonlocal n, total
            n, total = n + 1, total + x
            return total * n

        return f, lambda: (n, total)

    (f, plain), (g, state) = made(), made()
    g = jit(g)
    for k in range(6):
        assert_same(g(np.ones(2) * k), f(np.ones(2) * k))
        assert_same(state(), plain())
    assert g.cache_info().slow == 2


@pytest.mark.parametrize("kind", [jit, lambda f: f])
def test_attributes_of_functions(kind):
    @kind
    def f(x):
        f.count += 1
        f.last = x * f.scale
        return f.last + 1

    for step in (jit(f), jit(lambda x: f(x))):
        f.count, f.scale, f.last = 0, 2.0, None
        for n in range(1, 8):
            f.scale = 2.0 + n // 4
            np.testing.assert_array_equal(step(np.ones(2) * n), np.ones(2) * n * f.scale + 1)
            np.testing.assert_array_equal(f.last, np.ones(2) * n * f.scale)
            assert f.count == n and type(f.last) is np.ndarray
        assert step.cache_info().slow <= 4


def test_arguments():
    def f(state, record, dt):
        state["x"] += dt
        state["new"] = [state["x"], record.v]
        state.pop("old", None)
        record.x, record.v = record.x + dt, record.v * dt
        return state["x"] * record.x

    g = jit(f)
    for k in range(1, 6):
        one, other = ({"old": 1.0, "x": 0.5}, Record()), ({"old": 1.0, "x": 0.5}, Record())
        held = other[0]
        assert_same(g(*other, 0.5 * k), f(*one, 0.5 * k))
        assert_same(other[0], one[0])
        assert_same(_shown(other[1]), _shown(one[1]))
        assert other[0] is held
    assert g.cache_info() == (1, 1, 1, 0)


losses = []


class Recorder:
    def __init__(self):
        self.steps, self.log, self.n = [], [], 0

    def step(self, x):
        self.n += 1
        y = x * self.n
        losses.append(np.sum(y))
        self.log.append({"y": y, "n": self.n})
        if x[0] > 1.0:
            self.steps.append(self.n)
        return y

    def reads(self, x):
        self.log.append(x)
        return x * len(self.log)

    def reads_by_name(self, x):
        self.log.append(x)
        return x * len(getattr(self, "log"))  # noqa: B009

    def keeps_the_method(self, x):
        put = self.log.append
        put(x)
        return x * put.__self__[0]


@pytest.mark.parametrize("name", ["step", "reads", "reads_by_name", "keeps_the_method"])
def test_what_is_appended_to(name):
    """A list that is appended to, and not looked at, needs no trace for each length."""
    plain, found, states = getattr(Recorder, name), [], []
    step = jit(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if name == "step" else "ignore")
        for f in (plain, step):
            losses.clear()
            r = Recorder()
            found.append([f(r, np.arange(3.0) + k % 3) for k in range(1, 30)])
            states.append((list(losses), r.log, r.steps, r.n))
    assert_same(*found)
    assert_same(*states)
    if name == "step":
        assert found[1][-1] is r.log[-1]["y"] and type(r.steps[-1]) is int
        assert step.cache_info()[::3] == (2, 0)
        r.log = None
        with pytest.raises(AttributeError, match="append"):
            step(r, np.ones(3))


def _shared(x, s):
    s.kept["n"] += 1.0
    s.kept = dict(s.kept, x=x)
    return x * s.kept["n"]


def _within_a_tuple(x, s):
    s.pair[1]["n"] += 1.0
    s.pair = s.pair[0] + x, s.pair[1]
    return s.pair[0] * s.pair[1]["n"]


def _within_a_dataclass(x, s):
    s.body.spin["n"] += 1.0
    s.body = dataclasses.replace(s.body, x=s.body.x + x)
    return s.body.x * s.body.spin["n"]


def _forced(x, s):
    object.__setattr__(s.body, "n", s.body.n + 1)
    s.body = dataclasses.replace(s.body, x=s.body.x + x)
    return s.body.x * s.body.n


def _compared(x, s):
    was = s.body is s.other
    s.body = dataclasses.replace(s.body, x=s.body.x + x)
    return x * was


@pytest.mark.parametrize("f", [_shared, _within_a_tuple, _within_a_dataclass, _forced, _compared])
def test_what_leaves_a_place_was_changed_before(f):
    """Somebody else knows the container that was changed there."""
    warnings.simplefilter("ignore", RuntimeWarning)
    found = []
    for call in (f, jit(f)):
        body = Body(np.ones(3), np.ones(3), {"n": 0.0})
        s = types.SimpleNamespace(kept={"n": 0.0}, pair=(np.ones(3), {"n": 0.0}), body=body)
        s.other, known = body, []
        for k in range(1, 7):
            known += [(s.kept, s.pair, s.body.n, s.body)]
            known += [call(np.ones(3) * k, s)]
        found.append(_shown(known))
    assert_same(found[1], found[0])


def test_a_list_that_is_known_by_two_names_is_looked_at():
    log = []
    other = {"same": log}

    def f(x):
        log.append(x)
        return x * len(other["same"])

    g = jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [g(1.0) for _ in range(25)] == [float(k) for k in range(1, 26)]


def test_what_is_put_is_what_is_returned():
    class Holder:
        a = b = None

        def step(self, x):
            y = x * 2
            self.a = self.b = y
            self.x = x
            return y

    h, step = Holder(), jit(Holder.step)
    for k in range(6):
        x = np.ones(3) * k
        y = step(h, x)
        assert y is h.a is h.b and h.x is x
    assert step.cache_info().slow <= 3


def test_containers_that_are_given_or_kept_are_themselves():
    class Kept:
        def __init__(self):
            self.rows, self.pair, self.named = (
                [np.ones(2), 1.0],
                (np.ones(2), [2.0]),
                {"r": Record()},
            )

    def f(kept, given, record, pair):
        given["n"] += 1
        record.x = record.x * 2
        kept.rows[1] = kept.rows[1] + 1
        kept.given, kept.inner = given, given["inner"]
        inner = given["inner"]
        return kept.rows, given, [inner, record], pair, kept.pair, kept.pair[1], (inner,)

    one, other, g = Kept(), Kept(), jit(f)
    for k in range(6):
        found = []
        for kept, function in ((one, f), (other, g)):
            given, record, pair = {"n": k, "inner": [np.ones(2) * k]}, Record(), (1.0, np.ones(3))
            result = function(kept, given, record, pair)
            assert result[0] is kept.rows and result[1] is given is kept.given
            assert result[2][0] is given["inner"] is kept.inner is result[6][0]
            assert result[2][1] is record and result[3] is pair
            assert result[4] is kept.pair and result[5] is kept.pair[1]
            found.append((result, kept.rows, given, record))
        assert_same(*found)
    assert g.cache_info().eager == 0 and g.cache_info().slow <= 4
    same = jit(lambda x: x)
    for x in ([1.0], {"a": [2]}, (1.0, [2.0]), Record(), [], np.ones(2)):
        assert all(same(x) is x for _ in range(3))


class Aliased:
    def __init__(self):
        self.a, self.b = [1.0, 2.0], [1.0, 2.0]

    def adds(self, x):
        self.a[0] += x
        return self.b[0] * x

    def reads(self, x):
        return self.a[0] * 2 + self.b[0] * x

    def moves(self, x):
        self.b = self.a
        return x * self.b[1]

    def given(self, x, state):
        self.a[1] = self.a[1] + x
        state[0] = state[0] * 2 + self.a[1]
        return state[1] + self.a[0]


@pytest.mark.parametrize("name", ["adds", "reads", "moves", "given"])
def test_lists_that_are_one_and_lists_that_are_two(name):
    plain, one, other = getattr(Aliased, name), Aliased(), Aliased()
    fast, rng = jit(plain), np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what in rng.integers(0, 5, 40):
            found = []
            for m, f in ((one, plain), (other, fast)):
                if what == 1:
                    m.b = m.a
                elif what == 2:
                    m.b = list(m.b)
                elif what == 3:
                    m.a = [3.0, 4.0]
                elif what == 4:
                    m.a[0] = m.a[1] = 0.5
                more = () if name != "given" else (m.a,) if what % 2 else ([0.5, 1.5],)
                found.append((f(m, 0.5, *more), m.a, m.b, m.a is m.b, more))
            assert_same(*found)


def test_views_that_are_put_before_an_error():
    class Holder:
        def step(self, x):
            self.row = x[1:]
            if x[0] > 0:
                raise ValueError("no")
            return x * 2

    h, step = Holder(), jit(Holder.step)
    for k in (1.0, -1.0, 1.0, -1.0):
        x = np.ones(3) * k
        with pytest.raises(ValueError, match="no") if k > 0 else warnings.catch_warnings():
            step(h, x)
        assert np.shares_memory(h.row, x)


def test_containers_of_arrays_that_no_entry_takes_are_changed():
    def f(state):
        state["x"] = state["x"] * 2
        state["n"] += 1
        return state["n"]

    g = jit(f)
    one, other = ({"x": np.ones(3, ">f8"), "n": 1} for _ in range(2))
    for _ in range(3):
        assert g(other) == f(one)
        assert_same(other, one)


def test_a_view_of_what_is_put_shares_its_memory():
    class Holder:
        def step(self, x):
            y = x * 2
            self.all, self.part = y, y[1:]
            return np.sum(y)

        def row(self, x):
            self.first = x[0]
            return x[0] * 2

    h, step, row = Holder(), jit(Holder.step), jit(Holder.row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(6):
            step(h, np.ones(3) * k)
            assert np.shares_memory(h.all, h.part)
    for k in range(6):
        x = np.ones((2, 2)) * k
        row(h, x)
        x[0, 0] = 7.0
        assert h.first[0] == 7.0
    assert row.cache_info().eager == 0


def test_a_failing_guard_has_put_nothing():
    class Walker:
        def __init__(self):
            self.n, self.at = 0, 0.0

        def step(self, x):
            self.n += 1
            self.at = self.at + x
            if self.at > 3.0:
                self.at = 0.0
                raise ValueError("outside")
            if x > 1.5:
                self.at = -self.at
            return self.at

    one, other, step = Walker(), Walker(), jit(Walker.step)
    for x in [1.0, 1.0, 2.0, 0.5, 1.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.5]:
        results = []
        for w, f in ((one, Walker.step), (other, step)):
            try:
                results.append(f(w, x))
            except ValueError as error:
                results.append(str(error))
        assert results[0] == results[1]
        assert (one.n, one.at) == (other.n, other.at)
        assert type(other.n) is int and type(other.at) is float
    assert step.cache_info().eager == 0


class Counted:
    def __init__(self):
        self.n, self.log, self.made = 0, [0.0], {}

    def step(self, x, way):
        self.n += 1
        self.log[0] = self.log[0] + 1.0
        self.last = self.n
        if way == "leaves":
            return len(np.asarray(x).tobytes()) + self.n
        if way == "untraceable":
            return np.interp(x[0] * tr.param(1.0), [0.0, 1.0], [1.0, 2.0])
        return tr.gradient(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), x)[0] * self.n


@pytest.mark.parametrize("way", ["leaves", "untraceable", "nans"])
@pytest.mark.parametrize("n", [3, 200_000])
def test_an_abandoned_run_is_taken_back(way, n):
    """What cannot be traced runs again, and a gradient with NaNs that was put off."""
    one, other, step = Counted(), Counted(), jit(Counted.step, static="way")
    x = np.zeros(n)
    x[2:] = 2.0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(4):
            np.testing.assert_array_equal(tr.data(step(other, x, way)), tr.data(one.step(x, way)))
            assert (other.n, other.log, other.last) == (one.n, one.log, one.last)


def test_who_only_looks_changes_nothing():
    m, step = Adam(), jit(Adam.step)
    p, g = np.ones(3), np.arange(3.0)
    assert "native call" in step.explain(m, p, g)
    assert "power" in str(step.ir(m, p, g))
    assert m.count == 0 and not np.any(m.m)
    step(m, p, g)
    before = m.m
    step.explain(m, p, g)
    assert m.count == 1 and m.m is before


class Norm:
    """Running statistics, which a derivative reads and changes."""

    def __init__(self):
        self.mean, self.n, self.training = np.zeros(3), 0, True

    def __call__(self, x):
        if not self.training:
            return x - self.mean
        self.n += 1
        self.mean = 0.9 * self.mean + 0.1 * np.mean(x, axis=0)
        return x - np.mean(x, axis=0) + self.mean


def test_derivatives_of_functions_that_change_what_they_read():
    x, w = np.arange(12.0).reshape(4, 3) ** 1.5, np.eye(3) + 0.1

    def run(wrap):
        norm, found = Norm(), []
        f = wrap(lambda x, w: np.sum(norm(x @ w) ** 2))
        for k in range(8):
            norm.training = k % 4 != 3
            found.append(tr.gradient(f, x + k, w))
            found.append(tr.value_and_grad(f)(x - k, w))
            norm.mean = tr.data(norm.mean)  # plain derivatives leave what they followed
            found.append((norm.mean, norm.n))
            value, back = tr.pullback(f, x, w)
            norm.mean = tr.data(norm.mean)
            found.append((value, norm.mean, norm.n))
            found.append(back(1.0))
            found.append((norm.mean, norm.n))
        return found

    for got, want in zip(run(jit), run(lambda f: f), strict=True):
        for a, b in zip(tr.tree.leaves(got), tr.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_jitted_function_within_another():
    class Outer:
        def __init__(self):
            self.n, self.a = 0, np.ones(2)

        def inner(self, x):
            self.n += 1
            self.a = self.a + x
            return self.a * self.n

        def step(self, x):
            y = self.inner(x)
            self.n += 1
            return y + self.inner(x)

    class Jitted(Outer):
        inner, step = jit(Outer.inner), jit(Outer.step)

    one, other = Outer(), Jitted()
    for k in range(6):
        assert_same(other.step(0.5 * k), one.step(0.5 * k))
        assert_same(other.inner(0.5 * k), one.inner(0.5 * k))
        assert_same(vars(other), vars(one))
    assert Jitted.step.cache_info().eager == Jitted.inner.cache_info().eager == 0


def _scanned(self, x):
    def body(carry, a):
        self.n += 1
        self.total = self.total + a
        return carry + a * self.n, carry

    return tr.scan(body, 0.0, x)[0]


def _repeated(self, x):
    def body(i, carry):
        self.n += i
        self.log.append(carry)
        return carry + x[i] * self.n

    return tr.fori_loop(0, 5, body, self.log.pop())


def _halved(self, x):
    n = 0

    def body(y):
        nonlocal n
        n += 1
        return y / 2

    return tr.while_loop(lambda y: y > 0.3, body, 4 + x[0]) + n


def _chosen(self, x):
    def up(y):
        self.n += 1
        return y + self.n

    def down(y):
        self.n -= 1
        return y - self.n

    return tr.cond(x[0] > 0, up, down, x[1])


@pytest.mark.parametrize("function", [_scanned, _repeated, _halved, _chosen])
def test_bodies_of_loops_and_branches_that_change_what_they_read(function):
    class Walker:
        def __init__(self):
            self.n, self.total, self.log = 0, 0.0, [1.0]

    one, other, f = Walker(), Walker(), jit(function)
    for k in (1.0, 2.0, -1.0, -0.5, 3.0, 2.0):
        x = np.arange(1.0, 7.0) * k
        np.testing.assert_allclose(f(other, x), function(one, x), rtol=1e-14)
        assert (other.n, other.total) == (one.n, one.total)
        del one.log[:-1], other.log[:-1]
        assert other.log == pytest.approx(one.log, rel=1e-14)


@pytest.mark.parametrize("name", ["pose", "before"])
@pytest.mark.parametrize("reads", [False, True])
def test_a_dataclass_that_stands_somewhere_is_returned_itself(name, reads):
    def f(x):
        return [x * np.sum(m.pose.x) if reads else x, getattr(m, name)]

    m, compiled = Posed(), jit(f)
    for _ in range(3):
        assert compiled(2.0)[1] is getattr(m, name)
    assert compiled.cache_info().traces == 1


def test_a_dataclass_that_is_put_and_returned_is_one():
    def f(x):
        m.pose = m.pose.moved(x)
        return m.pose

    m, compiled = Posed(), jit(f)
    with pytest.warns(RuntimeWarning, match=r"plain Python.*changes"):
        for k in range(1, 5):
            assert compiled(1.0) is m.pose and m.pose.n == k


def _at_two_places(pose, m, x):
    m.before.v = m.before.v + x
    seen = m.pose.v * 1.0
    m.pose = Pose(m.pose.x + 1, m.pose.v)
    return seen


def _given_too(pose, m, x):
    pose.v = pose.v + x
    return m.before.v * 1.0


@pytest.mark.parametrize("f", [_at_two_places, _given_too])
@pytest.mark.parametrize("hosts", [False, True])
def test_one_dataclass_that_is_read_in_two_ways(f, hosts):
    """What is written by one way is read by the other, whichever came first."""
    warnings.simplefilter("ignore", RuntimeWarning)
    halves = np.zeros(2, np.float16)

    def called(g, m):
        def h(pose, x):
            return g(pose, m, x + np.sum(halves * x) if hosts else x)

        return h

    found = []
    for make in (lambda g: g, jit):
        m, seen = Posed(), []
        call = make(called(f, m))
        for k in range(9):
            other = m.before if k % 3 == 2 else Pose(np.ones(3), np.ones(3))
            if k in (3, 4, 7):
                m.pose = m.before
            seen.append((call(other, float(k)), _shown(m), _shown(other)))
        found.append(seen)
    assert_same(found[1], found[0])


def test_what_one_trace_cannot_say_runs_plain():
    class Makes:
        obj = None

        def step(self, x):
            self.obj = types.SimpleNamespace(x=x)
            return x * 2

        def counts(self, x):
            type(self).n += 1
            return x * self.n

        n = 0

    for function in (Makes.step, Makes.counts):
        m, step = Makes(), jit(function)
        with pytest.warns(RuntimeWarning, match=r"plain Python.*changes"):
            for k in range(1, 6):
                assert step(m, float(k)) == (2.0 * k if function is Makes.step else k * k)
        assert m.obj is None or m.obj.x == 5.0
    assert Makes.n == 5


def test_what_another_thread_puts_is_not_put_again():
    class Shared:
        def __init__(self):
            self.k, self.n = 2.0, 0

    shared, due = Shared(), [1.0, 1.0]

    def work():
        shared.k = 5.0

    def f(x, reset=False):
        if reset:
            shared.k = 2.0
        shared.n += 1
        y = shared.k * x
        if due:
            due.pop()
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return y

    g = jit(f, static="reset")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            g(1.0)
        for k in range(3, 9):
            shared.k = float(k)
            assert g(1.0) == k and shared.k == k
    assert shared.n == 9


def test_a_constant_is_put_while_other_threads_run():
    class Switch:
        on = False

        def step(self, x):
            self.on = not self.on
            return x * 2 if self.on else x

    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        switch, step = Switch(), jit(Switch.step)
        assert [step(switch, 1.0) for _ in range(10)] == [2.0, 1.0] * 5
        assert step.cache_info().eager == 0
    finally:
        end.set()
        thread.join()


def test_references_and_memory_are_flat():
    m, s, step = Nested(), Slots(), jit(Nested.step)
    x, g = np.array([0.1, 0.2, 0.3]), jit(Slots.step)
    for _ in range(8):
        step(m, x)
        g(s, x)
    things = [m, m.rows, m.window, m.layers, s, x, None, Nested, Slots]
    gc.collect()
    before, blocks = [sys.getrefcount(t) for t in things], sys.getallocatedblocks()
    for _ in range(5000):
        step(m, x)
        g(s, x)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500
    after = [sys.getrefcount(t) for t in things]
    assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True))
    assert s.n == 5008


class _Single:
    held = None
    gain = 1.0

    def __new__(cls):
        if cls.held is None:
            cls.held = object.__new__(cls)
            cls.held.count = 0
        return cls.held

    def __class_getitem__(cls, k):
        return k * cls.gain


def test_what_new_reads_of_its_class():
    def f(x):
        one = _Single()
        one.count += 1
        return x * one.count + _Single[2.0]

    results, x = [], np.arange(3.0)
    for call in (f, jit(f)):
        _Single.held, _Single.gain = None, 1.0
        results.append([])
        for k in range(6):
            _Single.gain = 1.0 + k // 3
            results[-1].append((call(x), _Single.held.count))
    assert_same(*results)
