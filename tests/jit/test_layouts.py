"""Random programs on arrays as callers have them: reversed, stepped, broadcast, Fortran order."""

import warnings

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jit_programs import assert_same, programs

from tracker import gradient, jit


def _broadcast(x):
    return np.broadcast_to(x[:1], x.shape) if x.shape[0] else x


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "last axis backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "rows of more": lambda x: np.concatenate([x, x, x])[x.shape[0] : 2 * x.shape[0]],
    "broadcast": _broadcast,
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
}
layouts = st.lists(st.sampled_from(sorted(LAYOUTS)), min_size=8, max_size=8)


def _laid_out(program, arguments, hows):
    """Copies of arguments, each array in a layout of its own (what is broadcast is read-only)."""
    writes = any(step.text.startswith("write") for step in program.steps)
    return [
        LAYOUTS[how](np.array(x))
        if isinstance(x, np.ndarray) and x.ndim and not (writes and how == "broadcast")
        else np.array(x)
        if isinstance(x, np.ndarray)
        else x
        for x, how in zip(arguments, hows, strict=False)
    ]


def _agree(compiled, plain, program, hows, tolerance):
    for arguments in (program.arguments, program.arguments, program.others(1)):
        given_, traced = (_laid_out(program, arguments, hows) for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want, got = plain(*given_), compiled(*traced)
        assert_same(got, want, "result", tolerance)
        assert_same(traced, given_, "arguments", tolerance)


@given(program=programs("mixed"), hows=layouts)
def test_results(program, hows):
    _agree(jit(program), program, program, hows, program.tolerance)


@given(program=programs("mixed", most=5), hows=layouts)
def test_gradients(program, hows):
    f = jit(program.loss)

    def both(*xs):
        return gradient(program.loss, *xs)

    _agree(lambda *xs: gradient(f, *xs), both, program, hows, 10 * program.tolerance)


@given(program=programs("mixed", most=5), hows=layouts)
def test_captured(program, hows):
    """The same arrays captured: rebound for other ones, they need no other trace."""
    held = {"xs": _laid_out(program, program.arguments, hows)}

    def f(scale):
        return program(*held["xs"])

    compiled = jit(f)
    for arguments in (program.arguments, program.arguments, program.others(1)):
        found = []
        for g in (compiled, f):
            held["xs"] = _laid_out(program, arguments, hows)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append((g(1.0), held["xs"]))
        assert_same(*found, "result and captures", program.tolerance)
