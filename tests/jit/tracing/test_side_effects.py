"""Writes to captured state and containers: after each call the state is as after the plain
function.
"""

import dataclasses
import threading
import warnings

import numpy as np
import pytest
from equality import assert_same
from side_by_side import each, program
from stateful_objects import Body, Pose, Posed, Record, shown

from tracker import gradient, jit


def ones_times(*factors):
    return [np.ones(3) * k for k in factors]


def ramps(count, most=3):
    return [np.arange(3.0) + k % most for k in range(1, count)]


class Recorder:
    def __init__(self):
        self.steps, self.log, self.n, self.losses = [], [], 0, []


class Appended:
    """A list that is appended to, and not looked at, needs no trace for each length."""

    @program(*ramps(30), times=1, state=Recorder, given=True, traces=2, eager=0)
    def step(x, s):
        s.n += 1
        y = x * s.n
        s.losses.append(np.sum(y))
        s.log.append({"y": y, "n": s.n})
        if x[0] > 1.0:
            s.steps.append(s.n)
        return y

    @program(*ramps(30), times=1, state=Recorder, given=True, warns=None)
    def reads(x, s):
        s.log.append(x)
        return x * len(s.log)

    @program(*ramps(30), times=1, state=Recorder, given=True, warns=None)
    def reads_by_name(x, s):
        s.log.append(x)
        return x * len(getattr(s, "log"))  # noqa: B009

    @program(*ramps(30), times=1, state=Recorder, given=True, warns=None)
    def keeps_the_method(x, s):
        put = s.log.append
        put(x)
        return x * put.__self__[0]

    @program(1.0, times=25, state={"log": []}, warns=None)
    def known_by_two_names(x, s):
        other = {"same": s.log}
        s.log.append(x)
        return x * len(other["same"])


@each(Appended)
def test_what_is_appended_to(row):
    row.check()


def test_what_is_appended_to_may_be_gone():
    r = Recorder()
    step = jit(lambda x: (r.log.append(x), x * 2)[1])
    for _ in range(3):
        step(np.ones(3))
    r.log = None
    with pytest.raises(AttributeError, match="append"):
        step(np.ones(3))


class Fitted:
    def __init__(self):
        self.history, self.n = {"x": [], "other": [1, 2], "text": "as it is"}, 0
        self.losses = {"loss": [], "n": []}
        self.two = {"a": [], "b": []}
        self.one = {"a": [], "b": None}
        self.one["b"] = self.one["a"]
        self.aside = self.two["a"]


def _emptied(s):
    s.history["x"] = []


def _reordered(s):
    s.history["other"] = s.history.pop("other")


def _shared_lists(s):
    s.losses["loss"] = s.losses["n"]


def fitted(**expected):
    changes = [_emptied, _reordered, _shared_lists]
    return program(*ramps(4), state=Fitted, given=True, changes=changes, **expected)


class InADict:
    @fitted(traces=4, eager=0)
    def step(x, s):
        s.losses["loss"].append(np.sum(x))
        for name in ("x", "other"):
            s.history[name].append(x * 2)
        if x[0] > 1.0:
            s.losses["n"].append(3)
        return x + 1

    @fitted()
    def derives(x, s):
        def loss(y):
            z = np.sum(y * y)
            s.history["x"].append(1.0)
            return z

        return gradient(loss, x)[0]

    @fitted()
    def raises(x, s):
        s.history["x"].append(x)
        if x[0] > 1.0:
            raise ZeroDivisionError
        return x

    @fitted()
    def misses(x, s):
        s.history["missing"].append(x)
        return x

    @fitted(warns=None)
    def reads(x, s):
        s.history["x"].append(x)
        return x * len(s.history["x"])

    @fitted(warns=None)
    def reads_another(x, s):
        s.history["x"].append(x)
        return x * s.history["other"][-1]

    @fitted(warns=None)
    def gives(x, s):
        s.history["x"].append(x)
        return x, s.history

    @fitted(warns=None)
    def is_one(x, s):
        s.one["a"].append(x)
        return x * len(s.one["b"])

    @fitted(warns=None)
    def stands_elsewhere(x, s):
        s.two["a"].append(x)
        return x * len(s.aside)

    @fitted()
    def makes(x, s):
        s.history["x"].append(x)
        s.history = {"x": [x], "other": s.history["other"]}
        return x


@each(InADict)
def test_what_is_appended_to_lists_in_a_dict(row):
    row.check()


def _seen_before():
    body = Body(np.ones(3), np.ones(3), {"n": 0.0})
    kept, pair = {"n": 0.0}, (np.ones(3), {"n": 0.0})
    return {"kept": kept, "pair": pair, "body": body, "other": body, "known": [kept, pair, body]}


_force = object.__setattr__


def seen(**expected):
    return program(
        *ones_times(1, 2, 3, 4, 5, 6), times=1, state=_seen_before, given=True, **expected
    )


class SeenBefore:
    """Somebody else knows the container that is changed before it is replaced."""

    @seen()
    def shared(x, s):
        s.kept["n"] += 1.0
        s.kept = dict(s.kept, x=x)
        return x * s.kept["n"]

    @seen()
    def within_a_tuple(x, s):
        s.pair[1]["n"] += 1.0
        s.pair = s.pair[0] + x, s.pair[1]
        return s.pair[0] * s.pair[1]["n"]

    @seen()
    def within_a_dataclass(x, s):
        s.body.spin["n"] += 1.0
        s.body = dataclasses.replace(s.body, x=s.body.x + x)
        return s.body.x * s.body.spin["n"]

    @seen(warns=None)
    def forced(x, s):
        object.__setattr__(s.body, "n", s.body.n + 1)
        s.body = dataclasses.replace(s.body, x=s.body.x + x)
        return s.body.x * s.body.n

    @seen(warns=None)
    def forced_by_another_name(x, s):
        _force(s.body, "n", s.body.n + 1)
        s.body = dataclasses.replace(s.body, x=s.body.x + x)
        return s.body.x * s.body.n

    @seen(warns=None)
    def compared(x, s):
        was = s.body is s.other
        s.body = dataclasses.replace(s.body, x=s.body.x + x)
        return x * was


@each(SeenBefore)
def test_a_value_changed_before_it_is_replaced(row):
    row.check()


class Kept:
    def __init__(self):
        self.rows, self.pair = [np.ones(2), 1.0], (np.ones(2), [2.0])


def _given(k):
    return {"n": k, "inner": [np.ones(2) * k]}, Record(), (1.0, np.ones(3))


class Themselves:
    """What is put, given or kept is the object itself."""

    @program(*ones_times(*range(6)), state={"a": None, "b": None, "x": None}, given=True, slow=2)
    def put_and_returned(x, s):
        y = x * 2
        s.a = s.b = y
        s.x = x
        return y

    @program(*[lambda k=k: _given(k) for k in range(6)], state=Kept, given=True, eager=0, slow=2)
    def containers(given, record, pair, kept):
        given["n"] += 1
        record.x = record.x * 2
        kept.rows[1] = kept.rows[1] + 1
        kept.given, kept.inner = given, given["inner"]
        inner = given["inner"]
        return kept.rows, given, [inner, record], pair, kept.pair, kept.pair[1], (inner,)

    @program([1.0], {"a": [2]}, ((1.0, [2.0]),), Record(), [], np.ones(2))
    def arguments(x):
        return x

    @program({"x": np.ones(3, ">f8"), "n": 1})
    def containers_of_arrays_that_no_entry_takes(state):
        state["x"] = state["x"] * 2
        state["n"] += 1
        return state["n"]

    @program(2.0, state=Posed, traces=1)
    def a_captured_dataclass(x, m):
        return [x, m.pose, m.before]

    @program(2.0, state=Posed, traces=1)
    def a_captured_dataclass_that_is_read(x, m):
        return [x * np.sum(m.pose.x), m.before, m.pose]

    @program(1.0, times=4, state=Posed, warns=r"plain Python.*changes")
    def a_dataclass_that_is_put(x, m):
        m.pose = m.pose.moved(x)
        return m.pose

    @program(*ones_times(*range(6)), state={"all": None, "part": None}, given=True, warns=None)
    def a_view_of_what_is_put(x, s):
        y = x * 2
        s.all, s.part = y, y[1:]
        return np.sum(y)

    @program(*[np.ones((2, 2)) * k for k in range(6)], state={"first": None}, given=True, eager=0)
    def a_view_that_is_put(x, s):
        s.first = x[0]
        return x[0] * 2

    @program(*ones_times(1.0, -1.0), state={"row": None}, given=True)
    def a_view_that_is_put_before_an_error(x, s):
        s.row = x[1:]
        if x[0] > 0:
            raise ValueError("no")
        return x * 2

    @program(
        *[1.0, 1.0, 2.0, 0.5, 1.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.5],
        times=1,
        state={"n": 0, "at": 0.0},
        given=True,
        eager=0,
    )
    def nothing_by_a_failing_guard(x, s):
        s.n += 1
        s.at = s.at + x
        if s.at > 3.0:
            s.at = 0.0
            raise ValueError("outside")
        if x > 1.5:
            s.at = -s.at
        return s.at


@each(Themselves)
def test_what_is_put_is_the_object_itself(row):
    row.check()


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
@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
def test_one_dataclass_that_is_read_in_two_ways(f, hosts):
    """What is written by one way is read by the other, whichever came first."""
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
            seen.append((call(other, float(k)), shown(m), shown(other)))
        found.append(seen)
    assert_same(found[1], found[0])


def test_writes_of_other_threads_are_not_repeated():
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
