"""Objects of installed packages: their code is not followed, so all of their attributes are
sources.
"""

import importlib
import itertools
import operator
import sys
import textwrap

import numpy as np
import pytest

from tracker import CompileError, gradient, jit
from tracker.jit.discovery.site_packages import LibraryObjects
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


def test_what_methods_read_may_change(package):
    model = package.Filter(2.0)

    @jit
    def f(x):
        return model.predict(x)

    slopes = jit(lambda x: gradient(model.predict, x))
    for gain, state in itertools.product((2.0, 3.0), (0.0, 1.0)):
        model.gain, model.state = gain, state
        assert f(1.5) == gain * 1.5 + state
        assert slopes(1.5) == (gain,)
    assert f.cache_info().eager == 0


def test_what_methods_change(package):
    ours, plain = package.Filter(0.5), package.Filter(0.5)
    f = jit(lambda x: ours.update(x) * 2)
    for x in (1.0, 2.0, 4.0, 8.0, 16.0):
        assert f(x) == plain.update(x) * 2
        assert (ours.state, ours.steps) == (plain.state, plain.steps)
    assert f.cache_info().slow < 4
    assert f.cache_info().eager == 0


def test_arrays_lists_and_functions_of_the_package(package):
    ours, plain = package.Filter(np.ones(3)), package.Filter(np.ones(3))
    f = jit(lambda x: ours.log(x))
    for x in (1.0, 2.0, 4.0):
        ours.state = plain.state = np.full(3, x)
        np.testing.assert_array_equal(f(x), plain.log(x))
        assert ours.history == plain.history


def test_a_new_attribute(package):
    model = package.Filter(1.0)

    @jit
    def f(x):
        model.start()
        return model.predict(x)

    for x in (1.0, 2.0, 3.0, 4.0):
        assert f(x) == x
        assert model.begun is True
    assert f.cache_info().slow == 2


def test_users_classes_on_bases_of_a_package(package):
    class Mine(package.Filter):
        def double(self, x):
            return 2 * self.predict(x)

    model = Mine(2.0)
    f = jit(model.double)
    for gain in (2.0, 3.0, 4.0):
        model.gain = gain
        assert f(1.5) == 3 * gain


def test_properties_slots_and_what_a_module_holds(package):
    thing, scale = package.Property(), package.Slots(2.0)

    def put(x):
        thing.size = thing.size + x
        return thing.size

    f, g, h = jit(put), jit(lambda x: scale(x)), jit(lambda x: package.SHARED.predict(x))
    for n in range(1, 5):
        assert f(1.0) == thing.size == 1.0 + n
        scale.weight = package.SHARED.gain = float(n)
        assert g(2.0) == h(2.0) == 2.0 * n


def test_an_argument(package):
    f = jit(lambda model, x: model.predict(x))
    model = package.Filter(2.0)
    for gain in (2.0, 3.0, 4.0):
        model.gain = gain
        assert f(model, 1.5) == 1.5 * gain


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
    monkeypatch.setattr(LibraryObjects, "is_installed_class", lambda self, cls: True)
    getter = operator.itemgetter(0)
    assert "__vectorcalloffset__" in vars(type(getter))
    assert not list(LibraryObjects("").filled_slots(getter))


def test_numbers_that_c_makes_for_each_reader():
    """A new object on each read is no change, and cannot be written back."""
    code = compile("\n" * 1000 + "pass", "file", "exec").replace(co_firstlineno=1000)
    before = StateSnapshot([AttributeSource(ConstantKey(code), "co_firstlineno", "")])
    assert code.co_firstlineno is not code.co_firstlineno
    assert not before.has_changed
    before.restore()
