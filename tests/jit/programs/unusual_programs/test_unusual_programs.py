"""Small strange programs do compiled what they do plainly: results, errors, writes, gradients."""

import copy

import numpy as np
import pytest
import unusual_arguments as strange_arguments
import unusual_code as strange_code
import unusual_values as strange_values
from compiled import copied
from side_by_side import assert_alike, outcome
from unusual import PROGRAMS

import tracker as tr
from tracker import gradient, jit

FILES = strange_arguments, strange_code, strange_values


def _own(x):
    """An argument that a program may write into, laid out as the given one."""
    if type(x) is np.ndarray:
        return copied(x)
    return copy.deepcopy(x) if isinstance(x, (list, dict)) else copy.copy(x)


def _compare(plain, calls, *compiled):
    for args in calls:
        want, _ = outcome(plain, [_own(x) for x in args])
        for f in compiled * 2:
            got, _ = outcome(f, [_own(x) for x in args])
            assert_alike(got, want, 1e-10)


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
    _compare(f, calls, jit(f))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    f, calls = PROGRAMS[name]
    inner, outer, loss = jit(f), jit(_loss(f)), _loss(f)
    want = lambda *args: gradient(loss, *args)  # noqa: E731
    ways = _loss(inner), outer
    _compare(want, calls, *(lambda *args, f=f: gradient(f, *args) for f in ways), jit(want))


def test_all_are_run():
    assert {f.__module__ for f, _ in PROGRAMS.values()} >= {file.__name__ for file in FILES}
