"""Programs with loops that are found while they run (`test_long_loops.py`), as functions of one
array. `rolled`: whether the loop is."""

import itertools
import math

import numpy as np
import pytest
from tqdm import tqdm
from tqdm.auto import trange
from tqdm.contrib import tzip

tqdm.monitor_interval = 0  # its thread would go on for as long as the process does

PROGRAMS = []
FLOATS = [0.1 * k for k in range(40)]
PAIRS = list(itertools.pairwise(FLOATS))
TIMES = (0.0, *FLOATS)


def program(rolled):
    def add(f):
        PROGRAMS.append(pytest.param(f, rolled, id=f.__name__))
        return f

    return add


def _decay(y, t):
    return y - 0.01 * y * math.cos(t)


class ForStatements:
    """Over lists, tuples, plain arrays, and iterators of comprehensions."""

    @program(True)
    def captured_list(p):
        y = p
        for t in FLOATS:
            y = y + 0.01 * (p[0] - y * t)
        return y

    @program(True)
    def captured_tuple(p):
        y = p
        for t in TIMES:
            y = y * 0.9 + p[1] * t
        return y, t

    @program(True)
    def tuples(p):
        y = p[0]
        for a, b in PAIRS:
            y = y + 0.01 * (p[1] * a - y * b)
        return y

    @program(True)
    def kept_tuples(p):
        y, last = p[0], None
        for pair in PAIRS:
            y = y + 0.01 * (p[1] * pair[0] - y)
            last = pair
        return y, last is PAIRS[-1]

    @program(True)
    def list_of_its_own(p):
        y, times = p, [0.25 * k for k in range(50)]
        for t in times:
            y = y + 0.01 * (p[0] * t - y)
        return y

    @program(True)
    def plain_array(p):
        y = p[0]
        for t in np.arange(40) * 0.1:
            y = y + 0.01 * (p[1] - y * np.sin(t))
        return y, t

    @program(True)
    def rows_of_a_plain_array(p):
        y = p
        for row in np.arange(120.0).reshape(40, 3):
            y = y * 0.9 + 0.01 * row
        return y

    @program(None)
    def numbers_of_an_array_as_a_list(p):
        y = p[0]
        for t in np.linspace(0, 1, 40).tolist():
            y = y + 0.01 * (p[1] - y * t)
        return y

    @program(True)
    def range_with_a_name(p):
        y, numbers = p, range(40)
        for k in numbers:
            y = y * 0.9 + p[1] * k
        return y, k

    @program(True)
    def comprehension(p):
        return np.sum(np.array([p[0] * t + p[1] - p[0] * p[1] * t**2 for t in FLOATS]))

    @program(True)
    def comprehension_over_a_range(p):
        rows = [p * 0.5 + p[0] * k for k in range(40)]
        return np.array(rows)

    @program(True)
    def list_of_a_comprehension(p):
        rows = [p[0] * t + p[1] for t in FLOATS]
        return rows[0] * rows[-1] + rows[20] + len(rows)

    @program(None)
    def comprehension_within_a_comprehension(p):
        return np.array([[p[0] * a + p[1] * b for b in FLOATS] for a in TIMES[:3]])

    @program(False)
    def comprehension_of_other_lengths(p):
        return tuple([p[0] * np.cos(np.arange(40.0) * p[1])[k:] for k in range(40)])

    @program(None)
    def comprehension_with_a_condition(p):
        return np.array([p[0] * t + p[1] for t in FLOATS if t > 1.0])

    @program(False)
    def set_comprehension(p):
        return p * sorted({k * 2 + 0 * int(p.size) for k in range(40)})[-1]

    @program(True)
    def rows_of_a_list_of_its_own(p):
        numbers = [p[0] * t + p[1] for t in FLOATS]
        pairs = [p[:2] * number for number in numbers[1:]]
        total = numbers[0]
        for k, pair in enumerate(pairs):
            total = total * 0.9 + pair[0] * pair[1] + k
        return total

    @program(None)
    def rows_that_are_written(p):
        rows, total = [p * t + p[1] for t in FLOATS], p[0]
        for row in rows:
            row += p
            total = total * 0.9 + row[0]
        return total, np.array(rows)

    @program(True)
    def appends(p):
        y, states = p, []
        for t in FLOATS:
            y = y + 0.01 * (p[0] - y * t)
            states.append(y)
        return np.array(states)

    @program(True)
    def break_on_a_value(p):
        y = p[0]
        for t in FLOATS:
            y = y * 0.9 + 0.001 * t
            if y < 0.05:
                break
        return y, t

    @program(False)
    def iterator_with_a_name(p):
        y, items = p[0], iter(FLOATS)
        for t in items:
            y = y + 0.01 * (p[1] - y * t)
            y = y * next(items)
        return y

    @program(False)
    def list_that_shrinks(p):
        y, items = p[0], list(FLOATS)
        for t in items:
            y = y + 0.01 * (p[1] - y * t)
            items.pop()
        return y + len(items)

    @program(None)
    def integers_as_subscripts(p):
        y = p
        for k in [0, 1, 2, 1] * 10:
            y = y * 0.9 + p[k]
        return y

    @program(True)
    def in_a_helper(p):
        def simulate(y, times):
            for t in times:
                y = _decay(y, t) + 0.01 * p
            return y

        return simulate(p, FLOATS) + simulate(2 * p, TIMES)

    @program(True)
    def inner_loop(p):
        y = p
        for k in (1.0, 2.0, 3.0):
            for t in FLOATS:
                y = y * 0.95 + 0.01 * k * t * p
        return y


def _terms(p, count):
    scale = p[0] + p[1]
    for k in range(count):
        yield np.sin(scale * k) * p[1]


def _paired_terms(p, count):
    for k in range(count):
        term = np.sin(p[0] * k)
        yield term
        yield term * p[1]


class Point:
    """What a generator makes, for `sum`."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __radd__(self, other):
        return other + self.x * self.y


class Generators:
    """What `sum`, `list`, `tuple`, `min` and `max` read."""

    @program(True)
    def sum_over_a_list(p):
        return sum(p[0] * t + p[1] for t in FLOATS)

    @program(True)
    def sum_over_a_range_from_a_start(p):
        return sum((np.exp(-k * p[0]) * p[1] for k in range(40)), p[2])

    @program(True)
    def sum_of_arrays(p):
        return sum(p * np.cos(t * p[0]) for t in FLOATS)

    @program(True)
    def sum_of_python_numbers(p):
        a = p[0].item()
        return sum(a * t * t for t in FLOATS)

    @program(True)
    def sum_of_neighbours(p):
        x = np.cos(np.arange(40.0) * p[0])
        return sum(a * b for a, b in zip(x[1:], x[:-1], strict=True))

    @program(True)
    def sum_of_as_many_as_there_are(p):
        x = np.cos(np.arange(40.0) * p[0])
        return sum(a * b for a, b in zip(x, x[2:], strict=False))

    @program(True)
    def sum_with_numbers(p):
        x = np.cos(np.arange(40.0) * p[0])
        return sum(a * p[1] * k for k, a in enumerate(x, 1))

    @program(True)
    def sum_of_a_comprehension(p):
        return sum([p[0] * t + p[1] for t in FLOATS])

    @program(True)
    def sum_of_a_function(p):
        x = np.cos(np.arange(40.0) * p[0])
        return sum(map(_decay, x, FLOATS))

    @program(True)
    def sum_with_a_condition(p):
        return sum(p[0] * t + p[1] for t in FLOATS if t < 9.0)

    @program(True)
    def sum_of_what_a_function_yields(p):
        return sum(_terms(p, 40))

    @program(True)
    def sum_of_what_a_function_yields_in_pairs(p):
        return sum(_paired_terms(p, 40))

    @program(None)
    def sum_of_objects(p):
        return sum(Point(p[0] * t, p[1] + t) for t in FLOATS)

    @program(True)
    def array_of_a_list(p):
        return np.array(list(p[0] * t + p[1] for t in FLOATS))  # noqa: C400

    @program(True)
    def parts_of_a_tuple(p):
        found = tuple(p * t for t in FLOATS)
        return found[3] * found[-1]

    @program(True)
    def list_of_a_function(p):
        return np.stack(list(map(lambda t: p * np.sin(t * p[1]), FLOATS)))  # noqa: C417

    @program(True)
    def extremes(p):
        return max(np.sin(p[0] * t) for t in FLOATS) - min(np.sin(p[1] * t) for t in FLOATS)

    @program(True)
    def sums_in_a_loop(p):
        total = p[0]
        for k in range(30):
            total = total * 0.9 + sum(p[1] * t * k for t in FLOATS[:8])
        return total

    @program(False)
    def read_by_a_loop(p):
        total = p[0]
        for term in _terms(p, 40):
            total = total * 0.9 + term
        return total

    @program(False)
    def read_by_another_generator(p):
        return sum(term * 2 for term in _terms(p, 40))

    @program(False)
    def left_early(p):
        terms = _terms(p, 40)
        return next(terms) + next(terms) * p[2]

    @program(True)
    def with_a_name_that_is_read_again(p):
        terms = (p[0] * t for t in FLOATS)
        first = next(terms)
        return first + max(terms) + sum(terms)

    @program(False)
    def classes_that_are_compared(p):
        found = [p[0] * t for t in FLOATS[:3]]
        return p * (type(found) is list) * (map is not tuple)


class WhileStatements:
    """Whose tests are on plain numbers."""

    @program(True)
    def until_a_time(p):
        y, t = p[0], 0.0
        while t < 4.0:
            y = y + 0.1 * (p[1] - y * np.sin(t))
            t += 0.1
        return y, t

    @program(True)
    def counter(p):
        y, i = p, 0
        while i < 40:
            y = y * 0.9 + p[0] * i
            i += 1
        return y, i

    @program(True)
    def counts_down(p):
        y, i = p, 40
        while i:
            y = y * 0.9 + p[0] * i
            i -= 1
        return y, i

    @program(True)
    def break_in_the_middle(p):
        y, t, n = p[0], 0.0, 0
        while True:
            y = y + 0.01 * (p[1] - y)
            t += 0.1
            if t > 4.0:
                break
            n += 1
        return y, t, n

    @program(True)
    def as_long_as_a_list(p):
        y, k = p[0], 0
        while k < len(FLOATS):
            y = y + 0.01 * (p[1] - y * k)
            k += 1
        return y

    @program(True)
    def two_tests(p):
        y, t, n = p[0], 0.0, 0
        while t < 10.0 and n < 40:
            y = y + 0.01 * (p[1] - y * t)
            t += 0.1
            n += 1
        return y, t, n

    @program(True)
    def test_on_a_value_besides(p):
        y, n = p[0], 0
        while n < 100 and y > 0.1:
            y = y * 0.95
            n += 1
        return y, n

    @program(True)
    def names_of_the_time_before(p):
        y, t, before = p[0], 0.0, -1.0
        while t < 4.0:
            before = t
            t = t + 0.1
            y = y + (t - before) * (p[1] - y)
        return y, t, before

    @program(True)
    def appends_times(p):
        y, t, times, states = p[0], 0.0, [], []
        while t < 4.0:
            y = y + 0.1 * (p[1] - y)
            t += 0.1
            times.append(t)
            states.append(y)
        return np.array(states), np.array(times), times[-1]

    @program(True)
    def writes(p):
        x, k = np.zeros(45), 1
        x[0] = p[0]
        while k < 45:
            x[k] = x[k - 1] * 0.9 + p[1]
            k += 1
        return x

    @program(True)
    def branches_now_and_then(p):
        y, k = p[0], 0
        while k < 60:
            y = y * 0.9 + p[1] if k < 30 else y * 1.01 - 0.1 * p[2]
            k += 1
        return y

    @program(None)
    def loop_within(p):
        y, t = p, 0.0
        while t < 2.0:
            for k in range(8):
                y = y * 0.99 + 0.01 * k * p[0]
            t += 0.1
        return y, t

    @program(True)
    def tested_loop_within(p):
        y, t = p, 0.0
        while t < 4.0:
            k = 0
            while k < 3:
                y = y * 0.99 + 0.01 * k * p[0]
                k += 1
            t += 0.1
        return y, t, k

    @program(True)
    def continues(p):
        y, k = p[0], 0
        while k < 60:
            k += 1
            if k < 4:
                continue
            y = y * 0.9 + p[1]
        return y, k

    @program(None)
    def loop_around(p):
        y = p[0]
        for _ in range(3):
            t = 0.0
            while t < 2.0:
                y = y + 0.01 * (p[1] - y * t)
                t += 0.1
        return y, t

    @program(True)
    def calls_a_function(p):
        y, t = p, 0.0
        while t < 4.0:
            y, t = _decay(y, t), t + 0.1
        return y, t

    @program(False)
    def generator(p):
        def times():
            t = 0.0
            while t < 4.0:
                yield t
                t += 0.1

        y = p[0]
        for t in times():
            y = y + 0.01 * (p[1] - y * t)
        return y

    @program(None)
    def time_as_text(p):
        y, t, names = p[0], 0.0, []
        while t < 4.0:
            y = y + 0.01 * (p[1] - y)
            t += 0.1
            names.append(f"{t:.2f}")
        return y, names[-1] == "4.00"

    @program(None)
    def step_that_shrinks(p):
        y, t, h = p[0], 0.0, 0.2
        while t < 4.0 and h > 1e-9:
            y = y + h * (p[1] - y)
            t += h
            h *= 0.97
        return y, t, h

    @program(False)
    def two_numbers_of_other_types(p):
        y, n = p[0], 40
        while n > 1:
            y = y * 0.99 + 0.01 * n
            n = n - 1 if n % 2 else n / 2 if n > 20 else n - 1
        return y, n


class Counters:
    """Integers that move by the same number in each iteration, beside the loop's own."""

    @program(True)
    def in_a_for_statement(p):
        x, k = np.zeros(45), 1
        x[0] = p[0]
        for t in range(44):
            x[k] = x[k - 1] * 0.9 + p[1] * t
            k += 1
        return x, k

    @program(True)
    def backwards(p):
        x, k = np.zeros(45), 44
        x[44] = p[0]
        while k:
            x[k - 1] = x[k] * 0.9 + p[1] * k
            k -= 1
        return x, k

    @program(True)
    def down_to_none(p):
        x, k = np.ones(45) * p[0], 44
        while k >= 0:
            x[k] = x[k] * p[1] + k
            k -= 1
        return x, k

    @program(True)
    def two_at_once(p):
        x, k, m = np.zeros((2, 90)), 2, 89
        while k < 90:
            x[0, k] = x[0, k - 2] * 0.9 + p[1]
            x[1, m] = p[0] * k
            k += 2
            m -= 1
        return x, k, m

    @program(True)
    def rows(p):
        x, at = np.zeros((20, 3)), 1
        x[0] = p
        while at < len(x):
            x[at] = x[at - 1] * 0.9 + p[0]
            at += 1
        return x

    @program(None)
    def doubled(p):
        x, k = np.zeros(1 << 13), 1
        while k < len(x):
            x[k] = p[0] * k + x[k // 2]
            k = 2 * k
        return x[:64], k

    @program(None)
    def on_a_condition(p):
        x, k, y = np.zeros(50), 0, p[0]
        for t in range(50):
            y = 0.9 * y + p[1] * np.cos(t)
            if y > 0.1:
                x[k] = y
                k += 1
        return x, k

    @program(None)
    def on_a_condition_on_a_counter(p):
        x, k, n = np.zeros(50), 0, 0
        while n < 60:
            if n % 3:
                x[k] = p[0] * n
                k += 1
            n += 1
        return x, k

    @program(True)
    def exchanged(p):
        x, k, m = np.zeros(50), 3, 7
        for t in range(40):
            x[k] = x[m] + p[0] * t
            k, m = m, k
        return x, k

    @program(None)
    def of_an_inner_loop(p):
        x, k = np.zeros(60), 0
        for t in range(6):
            for s in range(10):
                x[k] = p[0] * t + p[1] * s
                k += 1
        return x, k

    @program(True)
    def restarted_by_an_outer_loop(p):
        x = np.zeros((6, 20))
        for row in range(6):
            k = 1
            x[row, 0] = p[0] * row
            for _ in range(19):
                x[row, k] = x[row, k - 1] * 0.9 + p[1]
                k += 1
        return x

    @program(None)
    def of_the_last_rows(p):
        x, first = np.zeros(60), 10
        for _ in range(40):
            x[first] = np.sum(x[first - 10 : first]) * 0.05 + p[0]
            first += 1
        return x

    @program(None)
    def wraps_around(p):
        x, k = np.zeros(45), -5
        for t in range(40):
            x[k] = x[k] + p[0] * t
            k += 1
        return x

    @program(None)
    def compared_with_the_index(p):
        y, k = p[0], 3
        for i in range(40):
            y = y * 0.9 + p[1] if k - i == 3 else y * 2.0
            k += 1
        return y


SHOWN = {"ascii": True, "mininterval": 0, "miniters": 1, "bar_format": "{desc}{n_fmt}"}


class ProgressBars:
    """Over what a bar goes through; it shows each iteration."""

    @program(True)
    def hidden_bar(p):
        y = p[0]
        for k in tqdm(range(60), disable=True):
            y = y + 0.01 * (p[1] * k - y)
        return y, k

    @program(True)
    def bar(p):
        y = p[0]
        for k in trange(60, **SHOWN):
            y = y + 0.01 * (p[1] * k - y)
        return y, k

    @program(True)
    def bar_over_a_list(p):
        y = p
        for t in tqdm(FLOATS, **SHOWN):
            y = y + 0.01 * (p[0] - y * t)
        return y

    @program(True)
    def named_bar(p):
        y, bar = p[0], tqdm(range(60), **SHOWN)
        for k in bar:
            y = y + 0.01 * (p[1] * k - y)
        return y, bar.n

    @program(True)
    def bar_that_stops(p):
        y = p[0]
        for k in tqdm(range(400), **SHOWN):
            new = y + 0.1 * (p[1] - y)
            if k > 2 and abs(new - y) < 1e-3:
                break
            y = new
        return y, k

    @program(None)
    def bar_with_a_text(p):
        y, bar = p[0], tqdm(range(60), **SHOWN)
        for k in bar:
            y = y + 0.01 * (p[1] * k - y)
            bar.set_description(f"step {k}")
        return y

    @program(False)
    def zipped_bar(p):
        y = p[0]
        for t, k in tzip(FLOATS, range(40), tqdm_class=tqdm, **SHOWN):
            y = y + 0.01 * (p[1] * t * k - y)
        return y
