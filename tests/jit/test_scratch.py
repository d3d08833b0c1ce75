"""The layout of scratch: nothing that lives at the same time overlaps, and holes are used."""

import random
import re

import numpy as np
import pytest
from counting import lines_run
from hypothesis import given
from hypothesis import strategies as st

import tracker
from tracker.jit.scratch import ALIGNMENT, lay_out

LIVES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(0, 500)), max_size=60
)


def spans(lives):
    total, offsets = lay_out(lives)
    for key, (_, _, size) in lives.items():
        assert offsets[key] % ALIGNMENT == 0
        assert offsets[key] + size <= total
    return total, offsets


@given(LIVES)
def test_buffers_of_one_time_do_not_overlap(rows):
    lives = {k: (first, first + length, size) for k, (first, length, size) in enumerate(rows)}
    _, offsets = spans(lives)
    for a, (first, last, size) in lives.items():
        for b, (start, end, bytes_) in lives.items():
            if a < b and first <= end and start <= last:
                low, high = sorted([(offsets[a], size), (offsets[b], bytes_)])
                assert low[0] + max(low[1], 1) <= high[0]


def test_memory_is_used_again():
    assert spans({k: (k, k, 1000) for k in range(100)})[0] == 1024
    assert spans({k: (k, k + 1, 1000) for k in range(100)})[0] == 2048
    assert spans({0: (0, 1, 100), 1: (0, 1, 100), 2: (2, 2, 200)})[0] == 256  # holes join


@pytest.mark.parametrize("length", [0, 3, 10**9])
def test_the_work_is_linear(length):
    """Twice the buffers take about twice the steps, counted by the interpreter."""

    def steps(count):
        rng = random.Random(0)
        lives = {k: (k, k + rng.randint(0, length), rng.randint(1, 9) * 64) for k in range(count)}
        return lines_run(lambda: lay_out(lives))

    assert steps(2000) < 2.5 * steps(1000)


def test_what_a_loop_stacks_is_there_once():
    """Only carries have a second place, to which a step writes while it reads the first."""
    steps, n = 120, 1000

    @tracker.jit
    def f(x):
        def loss(x):
            for _ in range(steps):
                x = np.sin(x) * x
            return np.sum(x)

        return tracker.gradient(loss, x)[0]

    text = f.explain(np.linspace(0.1, 1.0, n))
    assert "loop of" in text
    (found,) = re.findall(r"at most ([\d,]+) of scratch", text)
    stacks = 2 * 8 * n * steps  # x and its sine
    assert int(found.replace(",", "")) < 1.2 * stacks
