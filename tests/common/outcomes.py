"""The outcome of a function, as text of its value or the class of its error: of a plain call, in a
derivative, and of two compiled calls."""

import warnings

import numpy as np

import tracker


def outcome(f, *args):
    """Types, dtypes and numbers of the result, or the built-in class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _said(f(*args))
        except NameError:  # of the test
            raise
        except Exception as error:
            kinds = (TypeError, ValueError, IndexError, AttributeError, OverflowError)
            return next((kind for kind in kinds if isinstance(error, kind)), type(error))


def _said(x):
    x = tracker.data(x)
    if isinstance(x, (list, tuple)):
        return [_said(each) for each in x]
    return f"{type(x).__name__} {getattr(x, 'dtype', '')} {np.shape(x)} {np.array(x).tolist()!r}"


def outcomes(f, *args):
    """Outcomes of a plain call, in an eager derivative, and of two compiled calls."""
    copies = [[_copy(x) for x in args] for _ in range(4)]
    plain = outcome(f, *copies[0])
    eager = outcome(lambda *xs: tracker.pullback(f, *xs)[0], *copies[1])
    compiled = tracker.jit(f)
    return plain, eager, outcome(compiled, *copies[2]), outcome(compiled, *copies[3])


def _copy(x):
    return x.copy("K") if isinstance(x, np.ndarray) else x
