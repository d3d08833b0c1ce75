"""Lists of tuples of numbers and text, which code reads as a table: compared by type and value."""

import numpy as np
import pytest

import tracker

ROWS = 40
X = np.array([0.3, -0.2])


def table():
    return [(0.1 * k, k, "even" if k % 2 == 0 else None) for k in range(ROWS)]


@pytest.fixture
def state():
    return {"table": table()}


def sum_of_rows(state):
    def f(x):
        total = 0.0
        for number, count, name in state["table"]:
            total = total + (x[0] * number + count) ** 2 * (x[1] if name == "even" else 1.0)
        return total

    return f


CHANGES = {
    "nothing": lambda rows: rows,
    "an equal table": lambda rows: table(),
    "a number": lambda rows: [*rows[:30], (7.5, 30, "even"), *rows[31:]],
    "the sign of zero": lambda rows: [(-0.0, *rows[0][1:]), *rows[1:]],
    "a class": lambda rows: [*rows[:2], (rows[2][0], 2.0, "even"), *rows[3:]],
    "a text": lambda rows: [*rows[:39], (*rows[39][:2], "even")],
    "fewer rows": lambda rows: rows[:-1],
    "a row of another length": lambda rows: [(*rows[0][:2], "odd"), *rows[1:]],
    "a row of arrays": lambda rows: [(np.array(0.5), 0, "even"), *rows[1:]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_differs_is_noticed(state, change):
    f = tracker.value_and_grad(sum_of_rows(state))
    fast = tracker.jit(f)
    for _ in range(2):
        np.testing.assert_allclose(fast(X)[1], f(X)[1], rtol=1e-12)
    state["table"] = CHANGES[change](state["table"])
    for _ in range(2):
        for got, want in zip(fast(X), f(X), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert fast.cache_info().traces == (1 if change in ("nothing", "an equal table") else 2)


def test_a_zero_of_another_sign_is_another_row(state):
    fast = tracker.jit(lambda x: x * np.arctan2(state["row"][0], -1.0))
    for zero in (0.0, -0.0, 0.0):
        state["row"] = (zero, "row")
        assert fast(2.0) == 2.0 * np.arctan2(zero, -1.0)


def test_a_row_is_returned_itself(state):
    fast = tracker.jit(lambda x: (x * state["table"][2][0], state["table"][2]))
    for _ in range(3):
        assert fast(2.0)[1] is state["table"][2]


def test_a_function_that_replaces_a_row_does_so_in_each_call(state):
    def f(x):
        number, count, name = state["table"][5]
        state["table"][5] = (number, count + 1, name)
        return x * count

    fast = tracker.jit(f)
    assert [fast(2.0) for _ in range(4)] == [10.0, 12.0, 14.0, 16.0]
    assert state["table"][5][1] == 9


def test_a_row_that_gets_a_tracked_number_is_plain_after_the_call(state):
    def f(x):
        state["table"][0] = (x * 2.0, 0, None)
        return state["table"][0][0] + 1.0

    fast = tracker.jit(lambda x: tracker.value_and_grad(f)(x))
    for x in (1.0, 2.0, 3.0):
        assert fast(x) == (2.0 * x + 1.0, 2.0)
        assert state["table"][0] == (2.0 * x, 0, None)
        assert type(state["table"][0][0]) is float
