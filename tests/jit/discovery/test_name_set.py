"""Names that functions of Python's have and attributes of the user's have, too: `ray.dir`."""

import dataclasses
import inspect
import warnings

import numpy as np
import pytest
from jit_programs import assert_same

from tracker import jit
from tracker.jit.discovery.bytecode import referenced_names


class Held:
    """Fields on a grid, known by name as well."""

    def __init__(self):
        self.dir, self.vars = np.array([0.0, 1.0, 0.5]), [np.ones(3)]
        self.fields = {"E": self.dir + 1.0, "H": self.dir + 2.0}

    def step(self, k):
        self.fields["E"] = self.fields["E"] + k * self.fields["H"]
        self.vars[0] = self.fields["E"] * self.dir
        self.dir = self.dir / np.sqrt(self.dir @ self.dir)
        return self.fields


def test_what_is_held_under_such_a_name_is_put_there():
    plain, held = Held(), Held()
    fast = jit(held.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for k in (1.0, 2.0, 0.5, 0.25, 3.0, 1.5):
            assert_same(fast(k), plain.step(k))
            assert fast(0.0) is held.fields
            plain.step(0.0)
            assert_same(held.fields["E"], plain.fields["E"])
            assert_same(held.vars[0], plain.vars[0])
            assert_same(held.dir, plain.dir)


def imported(x):
    import dataclasses as d

    kept = d.fields
    return kept(x)


NAMED = {
    "looked up": (lambda o: o.a.fields["k"], False),
    "looked up in a list": (lambda o, i: o.vars[i], False),
    "asked": (lambda o: o.fields.items(), False),
    "returned": (lambda o: o.dir, False),
    "computed with": (lambda o: o.dir * 2.0 + o.x.dir, False),
    "of a global": (lambda: Held.fields["k"], False),
    "called": (lambda o: dataclasses.fields(o), True),
    "called with many": (lambda m, o: m.fields(*o), True),
    "called by keywords": (lambda m, o: m.asdict(o, dict_factory=dict), True),
    "kept": (lambda: dataclasses.astuple, True),
    "its method": (lambda o: inspect.getmembers.__call__(o), True),
    "imported": (imported, True),
    "a function": (lambda o: dir(o), True),
    "all there is": (lambda o: o.__dict__["k"], True),
}


@pytest.mark.parametrize("name", NAMED)
def test_such_a_name_in_code(name):
    f, whole = NAMED[name]
    assert referenced_names(f.__code__).lists_attributes is whole
