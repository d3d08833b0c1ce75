"""Programs that read and change what they were not given, by ways that no name in their code says.

Each is made twice; the plain function and the compiled one do the same, call after call, while
others change what they read.
"""

import collections

import numpy as np

from tracker import jit
from tracker.tape.tracked import Tracked


def nothing(i=0):
    pass


def collector():
    """A list of programs, and the decorator that adds to it: `make()` gives a function, what
    somebody else does before call `i`, and what to look at."""
    programs = []

    def program(make):
        programs.append(make)
        return make

    return programs, program


def shown(x):
    """What is seen of an object, in which there must be no handle of a trace."""
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
