"""Writes to captured state and containers: after each call the state is as after the plain
function.
"""

import dataclasses
import threading
import types
import warnings

import numpy as np
import pytest
from jit_programs import assert_same
from stateful_objects import Body, Pose, Posed, Record, shown

from tracker import gradient, jit


@pytest.fixture(autouse=True)
def _no_plain_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


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


history = {"loss": [], "n": []}


class Fitted:
    def __init__(self):
        self.history, self.n = {"x": [], "other": [1, 2], "text": "as it is"}, 0
        self.two = {"a": [], "b": []}
        self.one = {"a": [], "b": None}
        self.one["b"] = self.one["a"]
        self.aside = self.two["a"]

    def step(self, x):
        history["loss"].append(np.sum(x))
        for name in ("x", "other"):
            self.history[name].append(x * 2)
        if x[0] > 1.0:
            history["n"].append(3)
        return x + 1

    def derives(self, x):
        def loss(y):
            z = np.sum(y * y)
            self.history["x"].append(1.0)
            return z

        return gradient(loss, x)[0]

    def raises(self, x):
        self.history["x"].append(x)
        if x[0] > 1.0:
            raise ZeroDivisionError
        return x

    def misses(self, x):
        self.history["missing"].append(x)
        return x

    def reads(self, x):
        self.history["x"].append(x)
        return x * len(self.history["x"])

    def reads_another(self, x):
        self.history["x"].append(x)
        return x * self.history["other"][-1]

    def gives(self, x):
        self.history["x"].append(x)
        return x, self.history

    def is_one(self, x):
        self.one["a"].append(x)
        return x * len(self.one["b"])

    def stands_elsewhere(self, x):
        self.two["a"].append(x)
        return x * len(self.aside)

    def makes(self, x):
        self.history["x"].append(x)
        self.history = {"x": [x], "other": self.history["other"]}
        return x


@pytest.mark.parametrize("name", [n for n in vars(Fitted) if not n.startswith("_")])
def test_what_is_appended_to_lists_in_a_dict(name):
    plain, found, states = getattr(Fitted, name), [], []
    step = jit(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if name in ("step", "derives") else "ignore")
        for f in (plain, step):
            history.update(loss=[], n=[])
            fitted, results = Fitted(), []
            for k in range(1, 15):
                try:
                    results.append(f(fitted, np.arange(3.0) + k % 3))
                except (KeyError, ZeroDivisionError) as error:
                    results.append(type(error).__name__)
                if k == 7:  # an empty list, and a dict in another order
                    fitted.history["x"] = []
                if k == 9 and "other" in fitted.history:
                    fitted.history["other"] = fitted.history.pop("other")
                if k == 11:
                    history["loss"] = history["n"]
            found.append(repr(results))
            states.append(repr((history, vars(fitted))))
    assert found[0] == found[1]
    assert states[0] == states[1]
    if name == "step":
        assert step.cache_info().traces <= 6 and step.cache_info().eager == 0


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


_force = object.__setattr__


def _forced_by_another_name(x, s):
    _force(s.body, "n", s.body.n + 1)
    s.body = dataclasses.replace(s.body, x=s.body.x + x)
    return s.body.x * s.body.n


def _compared(x, s):
    was = s.body is s.other
    s.body = dataclasses.replace(s.body, x=s.body.x + x)
    return x * was


_SEEN_BEFORE = [
    *(_shared, _within_a_tuple, _within_a_dataclass),
    *(_forced, _forced_by_another_name, _compared),
]


@pytest.mark.parametrize("f", _SEEN_BEFORE)
def test_a_value_changed_before_it_is_replaced(f):
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
        found.append(shown(known))
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


@pytest.mark.parametrize("name", ["pose", "before"])
@pytest.mark.parametrize("reads", [False, True])
def test_a_captured_dataclass_is_returned_itself(name, reads):
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
