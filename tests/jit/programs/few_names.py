"""Functions that may read any name of their module, which has few (see `test_bytecode.py`)."""

factor, which = 2.0, "factor"


def by_name(x, s):
    return x * globals()[which]


def evaluated(x, s):
    return x * eval(which)


def executed(x, s):
    found = {}
    exec("y = factor * 2", globals(), found)
    return x * found["y"]
