"""Every call of `keyword_calls.py` on tracked arrays: NumPy's numbers, dtypes, shapes and
containers, and derivatives of both modes that agree with central differences."""

import warnings

import numpy as np
import pytest
from keyword_calls import ARRAYS, CALLS, GIVEN, calls
from refused_calls import RAISING

from tracker import data, jit, param
from tracker.testing import check_derivatives

TEXTS = [text for kind in CALLS.values() for text in calls(kind)]
LAID_OUT = calls(CALLS["laid out as NumPy's"])


def leaves(y):
    """The leaves of a result in order, with the types of its containers."""
    if isinstance(y, (tuple, list)):
        return [type(y), *(leaf for part in y for leaf in leaves(part))]
    return [] if y is None else [y]


def numbers(y):
    return [leaf for leaf in leaves(y) if not isinstance(leaf, type)]


@pytest.mark.parametrize("text", TEXTS)
def test_call(text):
    call, names, copies = _read(text)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want, found = leaves(call(*copies())), leaves(call(*map(param, copies())))
        assert len(found) == len(want)
        for ours, theirs in zip(map(data, found), want, strict=True):
            _same(ours, theirs)
            if text in LAID_OUT and not isinstance(theirs, type):
                assert ours.flags.fnc == theirs.flags.fnc
        exact = not any(np.result_type(x).itemsize < 8 for x in (*copies(), *numbers(want)))
        smooth = any(np.result_type(y).kind in "fc" for y in numbers(want))
        finite = not {"N", "X", "empty"} & set(names)
        finite = finite and all(np.all(np.isfinite(y)) for y in numbers(want))
        if exact and smooth and finite:
            check_derivatives(lambda *xs: _floats(call(*xs)), copies())


@pytest.mark.parametrize("text", TEXTS)
def test_call_compiled(text):
    """First the trace's results, then those of machine code."""
    call, _, copies = _read(text)
    compiled = jit(call)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = leaves(call(*copies()))
        for _ in range(2):
            found = leaves(compiled(*copies()))
            assert len(found) == len(want)
            for ours, theirs in zip(found, want, strict=True):
                _same(ours, theirs, ulps=8)


@pytest.mark.parametrize("text", RAISING)
def test_errors_are_numpys(text):
    call, _, copies = _read(text)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as plain:
            call(*copies())
        for way in (lambda: call(*map(param, copies())), lambda: jit(call)(*copies())):
            with pytest.raises(_public(type(plain.value))):
                way()


def _public(error):
    """The public base of an exception class: NumPy's ufuncs raise private ones."""
    return next(c for c in error.__mro__ if "._" not in c.__module__)


def _read(text):
    """A call as a function of the arrays it names, their names, and a function that copies them."""
    names = [name for name in ARRAYS if name in _used(compile(text, text, "eval"))]
    call = eval(compile(f"lambda {', '.join(names)}: {text}", text, "eval"), {**GIVEN})

    def copies():
        return [np.copy(x) if isinstance(x, np.ndarray) else x for x in map(ARRAYS.get, names)]

    return call, names, copies


def _used(code):
    """The global names in a code object and in the functions within it."""
    inner = (c for c in code.co_consts if hasattr(c, "co_names"))
    return set(code.co_names).union(*map(_used, inner))


def _same(ours, theirs, ulps=0):
    if isinstance(theirs, type):
        assert ours is theirs
        return
    assert np.result_type(ours) == np.result_type(theirs)
    assert isinstance(ours, np.ndarray) == isinstance(theirs, np.ndarray)
    assert np.shape(ours) == np.shape(theirs)
    kind = np.result_type(theirs)
    rtol = max(1e-12, ulps * np.finfo(kind).eps) if kind.kind in "fc" else 0
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-12)


def _floats(y):
    return [part for part in numbers(y) if np.result_type(data(part)).kind in "fc"]
