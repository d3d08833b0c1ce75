"""Tables of programs over `tracker.scipy`, and the tests that their rows get.

A program is a function of SciPy's module, or ours, and of arrays. `against_scipy` differentiates it
in these: the defaults of its positional parameters, or what stands beside it in a tuple:

    {"gmean": lambda m, a=A: m.gmean(a, axis=1), "hmean": (partial(mean, "hmean"), A)}

`calls_as_scipy` calls a program with several arguments, for some of which SciPy raises. `since`
holds rows for which SciPy has changed its answer, or which it has learnt.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy

from tracker import data, jit, param, tree
from tracker.testing import gradcheck

Program = Callable[..., Any]
VERSION = tuple(map(int, scipy.__version__.split(".")[:2]))
Row = Program | tuple[Any, ...]
Calls = tuple[Program, Sequence[tuple[Any, ...]]]
_SINGLE = {np.dtype(float): np.dtype(np.float32), np.dtype(complex): np.dtype(np.complex64)}


def since(version: tuple[int, int], rows: dict[str, Any]) -> dict[str, Any]:
    """The rows, if SciPy is of this version or newer."""
    return rows if version <= VERSION else {}


def against_scipy(
    ours: ModuleType, theirs: ModuleType, programs: Mapping[str, Row], **options: Any
) -> Callable[[str], None]:
    """A test of each program by `check_program`."""

    @pytest.mark.parametrize("name", programs)
    def test(name: str) -> None:
        check_program(ours, theirs, programs[name], **options)

    return test


def check_program(
    ours: ModuleType,
    theirs: ModuleType,
    row: Row,
    order: int = 1,
    rtol: float = 1e-9,
    slack: float | None = None,
) -> None:
    """SciPy's numbers, dtypes and shapes on tracked values, in single precision, too; reverse and
    forward derivatives against differences, up to `order` (within `slack`, if given); compiled, as
    code that uses SciPy itself."""
    f, *args = row if isinstance(row, tuple) else (row, *_defaults(row))
    want, found = _parts(f(theirs, *args)), _parts(f(ours, *map(param, args)))
    assert [(data(y).dtype, np.shape(y)) for y in found] == [
        (np.result_type(y), np.shape(y)) for y in want
    ]
    _agree(found, want, rtol)
    single = [
        x.astype(_SINGLE.get(x.dtype, x.dtype)) if isinstance(x, np.ndarray) else x for x in args
    ]
    pairs = zip(_parts(f(ours, *map(param, single))), _parts(f(theirs, *single)), strict=True)
    for y, z in pairs:
        if np.result_type(z) in _SINGLE.values():
            assert data(y).dtype == np.result_type(z)
    assert gradcheck(lambda *xs: f(ours, *xs), *args, order=order, rtol=slack, atol=slack)
    compiled = jit(lambda *xs: f(theirs, *xs))
    for _ in range(2):
        _agree(_parts(compiled(*args)), want, rtol)


def _defaults(f: Program) -> list[Any]:
    parameters = inspect.signature(f).parameters.values()
    return [p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][1:]


def _parts(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def _agree(found: list[Any], want: list[Any], rtol: float) -> None:
    for ours, theirs in zip(found, want, strict=True):
        np.testing.assert_allclose(data(ours), theirs, rtol=rtol, atol=rtol / 100)


def calls_as_scipy(
    ours: ModuleType, theirs: ModuleType, programs: Mapping[str, Calls], exact: bool = False
) -> Callable[[str], None]:
    """A test of each program, compiled once, as code that uses SciPy itself, and called with each
    row of arguments, forth and back: SciPy's results and errors. `exact`: to the last bit, with the
    same text of errors; otherwise also uncompiled, on tracked arrays."""

    @pytest.mark.parametrize("name", programs)
    def test(name: str) -> None:
        f, calls = programs[name]
        compiled = jit(lambda *args: f(theirs, *args))
        for args in (*calls, *calls[::-1]):
            want = _outcome(exact, f, theirs, *args)
            same(_outcome(exact, compiled, *args), want, exact)
            if not exact:
                found = _outcome(exact, f, ours, *map(_tracked, args))
                same(tree.map(data, found), want, exact)

    return test


def _outcome(exact: bool, f: Program, *args: Any) -> Any:
    with np.errstate(all=None if exact else "ignore"):
        try:
            return f(*args)
        except Exception as error:
            return error


def _tracked(x: Any) -> Any:
    return param(x) if np.ndim(x) and x.dtype.kind in "fc" else x


def same(found: Any, want: Any, exact: bool = True) -> None:
    """The same types and numbers. Which of its own approximations a solver returns is its own."""
    if isinstance(want, dict):
        assert isinstance(found, type(want))
        for name in want.keys() - {"hess_inv", "jac"}:
            same(found[name], want[name], exact)
        return
    assert type(found) is type(want)
    if isinstance(want, tuple):
        for ours, theirs in zip(found, want, strict=True):
            same(ours, theirs, exact)
    elif isinstance(want, Exception):
        assert not exact or str(found) == str(want)
    elif exact:
        assert getattr(found, "dtype", None) == getattr(want, "dtype", None)
        np.testing.assert_array_equal(found, want)
    else:
        assert np.result_type(found) == np.result_type(want)
        rtol = 1e-5 if np.result_type(want) == np.float32 else 1e-9
        np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)
