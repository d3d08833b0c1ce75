"""Small strange programs do compiled what they do plainly: results, errors, writes, gradients."""

import copy
import dataclasses
import re
import warnings

import numpy as np
import pytest
import unusual_arguments as strange_arguments
import unusual_code as strange_code
import unusual_values as strange_values
from jit_programs import assert_same
from unusual import PROGRAMS, unaligned

import tracker as tr
from tracker import gradient, jit

FILES = strange_arguments, strange_code, strange_values
_COARSE = {np.dtype("f2"): 3e-3, np.dtype("f4"): 1e-5, np.dtype("c8"): 1e-5}


def _own(x):
    """An argument that a program may write into, laid out as the given one."""
    if isinstance(x, np.memmap) or not isinstance(x, np.ndarray):
        return copy.deepcopy(x) if isinstance(x, (list, dict)) else copy.copy(x)
    if not x.flags.writeable or x.dtype.hasobject or 0 in x.strides:
        return x
    if not x.flags.aligned:
        return unaligned(x)
    out = x.copy("K")
    if out.strides != x.strides:  # every other element of an array, or backwards
        steps = tuple(slice(None, None, -1 if stride < 0 else 2) for stride in x.strides)
        extents = [n if stride < 0 else 2 * n for n, stride in zip(x.shape, x.strides, strict=True)]
        out = np.zeros(extents, x.dtype)[steps]
        out[...] = x
    return out


def _assert_alike(got, want):
    """As `assert_same`, for results of any class."""
    assert type(got) is type(want), f"{got!r} is not {want!r}"
    if dataclasses.is_dataclass(want) and not isinstance(want, type):
        _assert_alike(tuple(vars(got).values()), tuple(vars(want).values()))
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            _assert_alike(one, other)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        _assert_alike(list(got.values()), list(want.values()))
    elif type(want) in (np.ndarray, float, complex) or isinstance(want, np.inexact):
        kind = np.result_type(want)
        if kind.kind in "biufc":
            assert_same(got, want, "result", _COARSE.get(kind, 1e-10))
        else:
            assert repr(got) == repr(want)
    else:
        assert repr(got) == repr(want)


def _outcome(f, args):
    """What came of a call: its result or error, and its arguments afterwards."""
    given = [_own(x) for x in args]
    try:
        result = f(*given)
    except Exception as error:
        result = type(error), re.sub(r" \(at \S+\)", "", str(error))
    return result, given


def _compare(compiled, plain, calls):
    for args in calls:
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want, got = _outcome(plain, args), _outcome(compiled, args)
            _assert_alike(got, want)


def _loss(f):
    """The sum of all floats in a result."""

    def loss(*args):
        total = 0.0
        for x in tr.tree.flatten(f(*args))[0]:
            if isinstance(x, (float, np.ndarray, np.floating)) and np.result_type(x).kind == "f":
                total = total + np.sum(x)
        return total

    return loss


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name):
    f, calls = PROGRAMS[name]
    _compare(jit(f), f, calls)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    f, calls = PROGRAMS[name]
    inner, outer, loss = jit(f), jit(_loss(f)), _loss(f)
    want = lambda *args: gradient(loss, *args)  # noqa: E731
    _compare(lambda *args: gradient(_loss(inner), *args), want, calls)
    _compare(lambda *args: gradient(outer, *args), want, calls)
    _compare(jit(want), want, calls)


def test_all_are_run():
    assert {f.__module__ for f, _ in PROGRAMS.values()} >= {file.__name__ for file in FILES}
