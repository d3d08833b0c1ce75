"""Helpers for programs whose captured state is changed between their calls.

Each program is made twice; the plain and the compiled function must agree, call after call.
"""

import collections

import numpy as np

from tracker import jit
from tracker.tape.tracked import Tracked


def nothing(i=0):
    pass


def puts(container, key):
    """Put another number under a key before each call."""
    return lambda i: container.__setitem__(key, float(i))


def sets(x, name):
    """Set an attribute to another number before each call."""
    return lambda i: setattr(x, name, float(i))


def collector():
    """A list of programs, and the decorator that adds to it. A program returns a function, what is
    done before call `i`, and a function that returns the state to compare."""
    programs = []

    def program(make):
        programs.append(make)
        return make

    return programs, program


def shown(x):
    """The contents of an object, which must have no tracked values."""
    assert type(x) is not Tracked
    if isinstance(x, dict):
        return type(x), [(key, shown(value)) for key, value in x.items()]
    if isinstance(x, (list, tuple, collections.deque)):
        return type(x), [shown(each) for each in x]
    if isinstance(x, np.ndarray) and x.dtype.hasobject:
        return [shown(each) for each in x.flat]
    return type(x), repr(x)


def calls(make, how):
    f, poke, state = make()
    fast, found = how(f), []
    for i, x in enumerate((1.0, 2.0, 3.0, 1.5, 2.0, 2.0)):
        if i:
            poke(i)
        found.append((fast(x), shown(state())))
    return found


def check(make):
    """Each call of the compiled function is that of the plain one."""
    assert calls(make, jit) == calls(make, lambda f: f)
