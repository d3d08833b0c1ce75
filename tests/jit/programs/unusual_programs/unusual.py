"""What the files of strange programs share: the table that they fill, and two arguments.

`PROGRAMS` has each program by name, with the arguments of the calls to make, in order.
`test_unusual_programs.py` runs them.
"""

from typing import Any

import numpy as np

PROGRAMS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {}
V = np.array([0.5, -1.25, 2.0])
M = np.arange(6.0).reshape(2, 3) / 7 + 0.1


def program(*calls):
    """Decorator: a program, to be called with each of these in turn."""

    def put(f):
        assert f.__name__ not in PROGRAMS
        PROGRAMS[f.__name__] = f, list(calls)
        return f

    return put


def table(cls):
    """Decorator: a class of programs; those without calls of their own take a vector."""
    for name, f in vars(cls).items():
        if not name.startswith("__") and name not in PROGRAMS:
            program((V,), (V * 2,))(f)
    return cls


def unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    out = raw[1:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x
