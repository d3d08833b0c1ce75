"""Programs that run plain and jitted, side by side: whatever one does, the other must do.

A table of programs is a class of functions, each with the calls to make:

    class Programs:
        @program(2.0, -3.0, traces=2)
        def both_ways(x):
            return x * 2 if x > 0 else -x

    @each(Programs)
    def test_ways(row):
        row.check()

Compared after each call: the result or the error, the arguments, and the state: values, types,
which of them are one object, and what shares memory. A warning that the plain function does not
give fails the row, so that a row runs compiled unless it says which warning it `warns` of (None:
it may run plainly).
"""

import contextlib
import copy
import dataclasses
import re
import types
import warnings
from collections import OrderedDict, deque

import numpy as np
import pytest

from tracker import gradient, jit
from tracker.tape.tracked import Tracked


class State:
    """What a program captures and changes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


def program(*calls, **expected):
    """Decorator: a program and its calls. See `Row` for what else can be said."""
    return lambda f: Row(f, calls, **expected)


def rows(table):
    """The programs of a class by name."""
    return {name: row for name, row in vars(table).items() if isinstance(row, Row)}


def each(*tables):
    """Decorator of a test: a row for each program of these classes."""
    found = [item for table in tables for item in rows(table).items()]
    return pytest.mark.parametrize(
        "row", [row for _, row in found], ids=[name for name, _ in found]
    )


@dataclasses.dataclass
class Row:
    """A program: `calls` are tuples of arguments, single arguments, or functions that make them;
    `traces`, `signatures`, `slow` and `eager` are of `cache_info` afterwards; `options` are of
    `jit`; with `gradients`, those are compared, too. With a `state` (attributes, or a function that
    makes an object), the program takes that object last: captured (`bind` says how), or `given`.
    The calls are made `times` times, and again after each of the `changes` to the state."""

    f: object
    calls: tuple
    state: object = None
    changes: object = ()
    given: bool = False
    bind: object = lambda f, s: lambda *args: f(*args, s)
    times: int = 2
    traces: object = None
    signatures: object = None
    slow: object = None
    eager: object = None
    warns: str | None = ""
    tolerance: float = 1e-12
    gradients: bool = False
    options: object = dataclasses.field(default_factory=dict)

    def check(self):
        plain, ours = (None, None) if self.state is None else (self._state(), self._state())
        f, fast = self._bound(plain), jit(self._bound(ours), **self.options)
        told = []
        for change in (None, *self.changes):
            for s in (plain, ours) if change else ():
                change(s)
            told += self._called((f, plain), (fast, ours))
        if self.warns is not None:
            assert any(re.search(self.warns, t) for t in told) if self.warns else not told, told
        info = fast.cache_info()
        for name in info._fields:
            wanted = getattr(self, name)
            assert wanted is None or getattr(info, name) == wanted, info
        if self.gradients:
            plain = lambda *args: gradient(f, *args)  # noqa: E731
            for ours in (lambda *args: gradient(fast, *args), jit(plain)):
                assert not self._called((plain, None), (ours, None))
        return fast

    def _called(self, plain, ours):
        """Make all calls of two functions (each with its state); the second one's own warnings."""
        told, before = [], ({}, {})
        for call in self.calls * self.times:
            want, expected = self._outcome(*plain, call)
            got, said = self._outcome(*ours, call)
            assert_alike(got, want, self.tolerance)
            assert kept(got, before[0]) == kept(want, before[1])
            before = got, want
            told += [text for text in said if text not in expected]
        return told

    def _outcome(self, f, s, call):
        args = _arguments(call)
        return outcome(f, (*args, s) if self.given and s is not None else args, s)

    def _state(self):
        made = self.state() if callable(self.state) else copy.deepcopy(self.state)
        return State(**made) if type(made) is dict else made

    def _bound(self, s):
        f = self.f
        return f if self.state is None or self.given else self.bind(f, s)


def _arguments(call):
    call = call() if isinstance(call, types.FunctionType) else copy.deepcopy(call)
    return call if isinstance(call, tuple) else (call,)


def outcome(f, args, state=None):
    """The leaves of what a call gives or raises, of its arguments and of a state afterwards; and
    the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = f(*args)
        except NameError:  # of the test
            raise
        except Exception as error:
            result = type(error), re.sub(r" \(at \S+\)", "", str(error))
    found = leaves((args, state), "given")
    return leaves(result, "result", found), [str(one.message) for one in told]


# What is compared ---------------------------------------------------------------------------------


class Itself:
    """A thing that can be changed, which is known by its identity."""

    def __init__(self, x):
        self.x = x


def attributes(x):
    """The attributes of an object, with those in slots; None where it has none of its own."""
    if isinstance(x, (type, types.ModuleType, types.FunctionType, np.ndarray, np.generic)):
        return None
    names = [n for cls in type(x).__mro__ for n in np.atleast_1d(getattr(cls, "__slots__", ()))]
    slots = [n for n in names if n not in ("__dict__", "__weakref__") and hasattr(x, n)]
    held = {n: getattr(x, n) for n in slots}
    with contextlib.suppress(AttributeError):  # a class may look attributes up itself
        held |= object.__getattribute__(x, "__dict__")
    return held or None


def leaves(x, path="", found=None):
    """All that is in a value, by the way there."""
    found = {} if found is None else found
    assert not isinstance(x, Tracked), path
    if isinstance(x, (list, tuple, deque)):
        found[path], items = f"{type(x).__name__} of {len(x)}", dict(enumerate(x))
    elif isinstance(x, dict):
        found[path], items = f"{type(x).__name__} {_keys(x)}", x
    elif isinstance(x, np.ndarray) and x.dtype.hasobject:
        found[path], items = f"objects {x.shape}", dict(enumerate(x.flat))
    else:
        items = attributes(x) or {}
        found[path] = f"{type(x).__qualname__} {_keys(items)}" if items else x
    if items or isinstance(x, (list, dict, deque)):
        found[f"{path} itself"] = Itself(x)
    for name, child in items.items():
        way = f"{path}.{name}"
        if way.count(".") < 12:  # an object may hold itself
            leaves(child, way, found)
    return found


def kept(now, before):
    """Where the state has the same things as before."""
    places = [path for path in now if path.startswith("given.1.") and path in before]
    things = [path for path in places if isinstance(now[path], (Itself, np.ndarray))]
    return [path for path in things if _thing(now[path]) is _thing(before[path])]


def _thing(leaf):
    return leaf.x if isinstance(leaf, Itself) else leaf


def _keys(x):
    named = [f"{type(key).__name__} {key}" for key in x]
    return named if isinstance(x, OrderedDict) else sorted(named)


def assert_alike(got, want, tolerance=1e-12):
    """Two collections of `leaves` have the same values, of the same types, and the same of them are
    one object, or share memory (results among themselves need not)."""
    assert got.keys() == want.keys()
    for path, x in want.items():
        assert type(got[path]) is type(x), (path, got[path], x)
        if not isinstance(x, Itself):
            _assert_equal(got[path], x, path, tolerance)
    things = [path for path, x in want.items() if isinstance(x, Itself)]
    for k, p in enumerate(things):
        for q in things[:k]:
            assert (got[p].x is got[q].x) == (want[p].x is want[q].x), (p, q)
    arrays = [path for path, x in want.items() if isinstance(x, np.ndarray)]
    for k, p in enumerate(arrays):
        for q in arrays[:k]:
            assert (got[p] is got[q]) == (want[p] is want[q]), (p, q)
            if "given" in p[:5] + q[:5]:
                shared = np.may_share_memory(want[p], want[q])
                assert np.may_share_memory(got[p], got[q]) == shared, (p, q)


def _assert_equal(got, want, path, tolerance):
    if isinstance(want, type) and issubclass(want, Exception):
        assert issubclass(got, want), (path, got, want)  # who catches one catches the other
        return
    if not isinstance(want, (np.ndarray, np.generic, float, complex)):
        assert got == want or _shown(got) == _shown(want), (path, got, want)
        return
    assert np.shape(got) == np.shape(want), (path, np.shape(got), np.shape(want))
    if isinstance(want, np.ndarray):
        assert got.flags.writeable == want.flags.writeable, path
    dtype = np.result_type(want)
    assert np.result_type(got) == dtype, (path, np.result_type(got), dtype)
    if dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=path)
        return
    tolerance = max(
        tolerance, {2: 3e-3, 4: 1e-5}.get(dtype.itemsize // (1 + (dtype.kind == "c")), 0)
    )
    finite = np.abs(np.asarray(want)[np.isfinite(want)])
    scale = max(1.0, float(np.max(finite))) if finite.size else 1.0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=path)


def _shown(x):
    return re.sub(" at 0x[0-9a-fA-F]+", "", repr(x))
