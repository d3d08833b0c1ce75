"""Random programs on arrays as callers have them: reversed, broadcast, in Fortran order, shared."""

import functools
import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jit_programs import check_calls, programs

from tracker import gradient, jit


def _broadcast(x):
    return np.broadcast_to(x[:1], x.shape) if x.shape[0] else x


def _unaligned(x):
    y = np.zeros(x.nbytes + 1, "u1")[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "last axis backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "rows of more": lambda x: np.concatenate([x, x, x])[x.shape[0] : 2 * x.shape[0]],
    "broadcast": _broadcast,
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "unaligned": _unaligned,
    "as it is": np.array,
}
layouts = st.lists(st.sampled_from(sorted(LAYOUTS)), min_size=8, max_size=8)


def _laid_out(program, hows, arguments):
    """Copies of arguments, each array in a layout of its own (what is broadcast is read-only)."""
    writes = any(step.text.startswith(("write", "itself")) for step in program.steps)
    return [
        LAYOUTS[how](np.array(x))
        if isinstance(x, np.ndarray) and x.ndim and not (writes and how == "broadcast")
        else np.array(x)
        if isinstance(x, np.ndarray)
        else x
        for x, how in zip(arguments, hows, strict=False)
    ]


def _agree(compiled, plain, program, hows, tolerance=1):
    give = functools.partial(_laid_out, program, hows)
    check_calls(program, plain, compiled, give=give, tolerance=tolerance)


@given(program=programs("mixed"), hows=layouts)
def test_results(program, hows):
    _agree(jit(program), lambda p, *xs: p(*xs), program, hows)


@given(program=programs("mixed", most=6), hows=layouts)
def test_gradients(program, hows):
    f = jit(program.loss)

    def plain(p, *xs):
        return gradient(p.loss, *xs)

    _agree(lambda *xs: gradient(f, *xs), plain, program, hows, 10)
    _agree(jit(lambda *xs: plain(program, *xs)), plain, program, hows, 10)


@given(program=programs("mixed"), hows=layouts)
def test_arguments_that_share_memory(program, hows):
    """What is written into one argument is read through the others, in order or backwards."""
    compiled = jit(program)

    def shared(xs):
        arrays = [k for k, x in enumerate(xs) if isinstance(x, np.ndarray) and x.ndim]
        for i, j in itertools.combinations(arrays, 2):
            if xs[i].shape == xs[j].shape and xs[i].dtype == xs[j].dtype:
                xs[j] = xs[i] if "backwards" not in hows[j] else xs[i][::-1]
        return xs

    def give(arguments):
        return shared(_laid_out(program, hows, arguments))

    check_calls(program, lambda p, *xs: p(*xs), compiled, give=give)


@given(program=programs("mixed", most=6), hows=layouts)
def test_captured(program, hows):
    """The same arrays captured: rebound for other ones, they need no other trace."""
    held = {}

    def f(scale):
        return program(*held["xs"])

    compiled = jit(f)

    def call(*xs):
        held["xs"] = xs
        return compiled(1.0)

    _agree(call, lambda p, *xs: p(*xs), program, hows)
