"""Objects of installed packages: their code is not followed, so all of their attributes are
sources.
"""

import importlib
import operator
import sys
import textwrap

import numpy as np
import pytest
from side_by_side import program

from tracker import CompileError, gradient, jit
from tracker.jit.discovery.user_code import LibraryObjects, UserCode
from tracker.jit.guards.constants import ConstantKey
from tracker.jit.guards.source import AttributeSource
from tracker.jit.tracing.side_effects import StateSnapshot

PACKAGE = """
class Filter:
    def __init__(self, gain):
        self.gain, self.state, self.steps, self.history = gain, 0.0, 0, []

    def update(self, x):
        self.state = self.state + self.gain * (x - self.state)
        self.steps += 1
        return self.state

    def log(self, x):
        self.history.append(x)
        return _mean(self)

    def predict(self, x):
        return self.gain * x + self.state

    def start(self):
        self.begun = True


def _mean(filter):
    return filter.state + len(filter.history)


class Property:
    def __init__(self):
        self._size = 1.0

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, x):
        self._size = x


class Slots:
    __slots__ = ("empty", "weight")

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return self.weight * x


class Tree:
    def __init__(self, depth):
        self.value = depth
        self.parts = [Tree(depth - 1), Tree(depth - 1)] if depth else []

    def total(self, x):
        return x + self.value


SHARED = Filter(2.0)
_scale, _calls, _table = 1.0, 0, __import__("numpy").ones(2)


def set_scale(x):
    global _scale
    _scale = x


def scaled(x):
    return _helped(x)


def _helped(x):
    global _calls
    _calls += 1
    return x * _scale * _table


class Scaler:
    def __call__(self, x):
        return scaled(x)


def counted(x):
    counted.calls += 1
    return counted.weight * x


counted.calls, counted.weight = 0, 1.0
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "tracker_test_installed.py").write_text(textwrap.dedent(PACKAGE))
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("tracker_test_installed")
    del sys.modules["tracker_test_installed"]


def sets(**attributes):
    return lambda s: [setattr(s, name, value) for name, value in attributes.items()]


def _users_class(package):
    class Mine(package.Filter):
        def double(self, x):
            return 2 * self.predict(x)

    return Mine(2.0)


def _begins(x, s):
    s.start()
    return s.predict(x)


def _puts(x, s):
    s.size = s.size + x
    return s.size


STATES = [sets(gain=2.0, state=1.0), sets(gain=3.0, state=0.0), sets(gain=3.0, state=1.0)]
# What makes the object, what is done with it, and what changes between the calls.
OBJECTS = {
    "what methods read": (lambda p: p.Filter(2.0), lambda x, s: s.predict(x), STATES),
    "in a gradient": (lambda p: p.Filter(2.0), lambda x, s: gradient(s.predict, x), STATES),
    "what methods change": (lambda p: p.Filter(0.5), lambda x, s: s.update(x) * 2, STATES[:1]),
    "arrays, lists and functions": (
        lambda p: p.Filter(np.ones(3)),
        lambda x, s: s.log(x),
        [sets(state=np.full(3, k)) for k in (1.0, 2.0, 4.0)],
    ),
    "a new attribute": (lambda p: p.Filter(1.0), _begins, []),
    "a user's class": (_users_class, lambda x, s: s.double(x), STATES),
    "a property": (lambda p: p.Property(), _puts, []),
    "slots": (lambda p: p.Slots(2.0), lambda x, s: s(x), [sets(weight=3.0), sets(weight=4.0)]),
}


@pytest.mark.parametrize("given", [False, True], ids=["captured", "argument"])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_a_package(name, given, package):
    make, f, changes = OBJECTS[name]
    calls = (1.5,) if "lists" in name else (1.5, 2.0, 4.0)  # each length needs a trace
    row = program(*calls, state=lambda: make(package), given=given, changes=changes)
    assert row(f).check().cache_info().slow <= 4 or "lists" in name


def test_a_bound_method_and_what_a_module_holds(package):
    model = _users_class(package)
    bound, shared = jit(model.double), jit(lambda x: package.SHARED.predict(x))
    for gain in (2.0, 3.0, 4.0):
        model.gain = package.SHARED.gain = gain
        assert (bound(1.5), shared(1.5)) == (3 * gain, 1.5 * gain)


def test_too_many_objects_to_look_at(package):
    tree = package.Tree(8)
    f = jit(lambda x: tree.total(x))
    with pytest.warns(RuntimeWarning, match="a Tree that it reads holds too many other objects"):
        assert f(1.0) == 9.0
    tree.value = 1.0
    assert f(1.0) == 2.0
    with pytest.raises(CompileError, match="function cannot be traced: a Tree that"):
        jit(lambda x: tree.total(x), strict=True)(1.0)


def test_attributes_of_a_function_that_reads_its_own(package):
    f = jit(lambda x: package.counted(x))
    for n in range(1, 7):
        package.counted.weight = float(n // 2)
        assert f(2.0) == 2.0 * (n // 2)
        assert package.counted.calls == n
    assert f.cache_info().eager == 0


def test_numbers_and_arrays_of_its_modules(package):
    given, scaler = package.scaled, package.Scaler()
    compiled = [jit(lambda x: package.scaled(x)), jit(lambda x: given(x)), jit(lambda x: scaler(x))]
    for scale in (1.0, 2.0, 3.0):
        package.set_scale(scale)
        package._table[0] = package._calls = scale
        for f in compiled:
            np.testing.assert_array_equal(f(1.5), [1.5 * scale * scale, 1.5 * scale])
        assert package._calls == scale + 3
    assert all(f.cache_info().eager == 0 for f in compiled)


def test_members_that_c_has_for_itself(monkeypatch):
    monkeypatch.setattr(UserCode, "is_installed", lambda self, module: True)
    getter = operator.itemgetter(0)
    assert "__vectorcalloffset__" in vars(type(getter))
    assert not list(LibraryObjects(UserCode("")).filled_slots(getter))


def test_numbers_that_c_makes_for_each_reader():
    """A new object on each read is no change, and cannot be written back."""
    code = compile("\n" * 1000 + "pass", "file", "exec").replace(co_firstlineno=1000)
    before = StateSnapshot([AttributeSource(ConstantKey(code), "co_firstlineno", "")])
    assert code.co_firstlineno is not code.co_firstlineno
    assert not before.has_changed
    before.restore()
