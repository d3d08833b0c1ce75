"""Arithmetic of basic indices, compared with NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tracker.ir.index_arithmetic import compose_indices, relative_index
from tracker.ops.indexing.canonical import canonical_index


@st.composite
def parts(draw):
    """A shape, an index into it, and an index into that part."""
    shape = draw(npst.array_shapes(min_dims=1, max_dims=4, max_side=6))
    outer = canonical_index(_tuple(draw(_indices(shape))), shape)
    rest = np.empty(shape)[outer].shape
    return shape, outer, canonical_index(_tuple(draw(_indices(rest))), rest)


def _indices(shape):
    return npst.basic_indices(shape, allow_newaxis=True, allow_ellipsis=False, max_dims=6)


def _tuple(index):
    return index if isinstance(index, tuple) else (index,)


@given(parts())
def test_composed_indices_agree_with_numpy(drawn):
    shape, outer, inner = drawn
    x = np.arange(np.prod(shape)).reshape(shape)
    index = compose_indices(outer, inner, shape)
    if index is None:
        assert 0 in x[outer].shape or 0 in x[outer][inner].shape
        return
    assert np.array_equal(x[index], x[outer][inner])
    assert index == canonical_index(index, shape)


@pytest.mark.parametrize(
    "outer, inner, found",
    [
        ((slice(9, None, -1),), (2,), (7,)),
        ((slice(9, None, -1),), (slice(0, 10, 3),), (slice(9, None, -3),)),
        ((slice(9, None, -1),), (slice(9, None, -1),), (slice(0, 10, 1),)),
        ((slice(1, 9, 2),), (None, slice(1, 3, 1)), (None, slice(3, 7, 2))),
        ((None, 3), (0,), (3,)),
        ((None, 3), (slice(0, 0, 1),), None),
        ((slice(2, 8, 1),), (slice(0, 0, 1),), None),
    ],
)
def test_examples(outer, inner, found):
    assert compose_indices(outer, inner, (10,)) == found


@given(parts(), st.data())
def test_a_part_of_a_part_is_found_again(drawn, data):
    shape, outer, inner = drawn
    x = np.arange(np.prod(shape)).reshape(shape)
    if None in outer or None in inner or (wanted := compose_indices(outer, inner, shape)) is None:
        return
    found = relative_index(outer, wanted, shape)
    if x[wanted].size:
        assert np.array_equal(x[outer][found], x[wanted])
        assert found == canonical_index(found, x[outer].shape)


@given(parts(), st.data())
def test_only_what_is_within_a_part_is_found_in_it(drawn, data):
    shape, outer, _ = drawn
    other = canonical_index(_tuple(data.draw(_indices(shape))), shape)
    x = np.arange(np.prod(shape)).reshape(shape)
    found = relative_index(outer, other, shape)
    if found is not None:
        assert np.array_equal(x[outer][found], x[other])
        assert found == canonical_index(found, x[outer].shape)
    elif None not in outer and None not in other and x[other].size:
        is_within = np.isin(x[other], x[outer]).all()
        assert not is_within or _differs_in_axes(outer, other)


def _differs_in_axes(outer, other):
    """Whether one of two indices has an integer where the other has a slice."""
    return any(isinstance(a, int) != isinstance(b, int) for a, b in zip(outer, other, strict=True))
