"""Programs with loops that end when a condition on values holds (`test_leaving_loops.py`), as
functions of one array. `traces`: how many traces serve calls with different numbers of iterations;
None: any number."""

import warnings

import numpy as np
import pytest

PROGRAMS, NESTED = [], []


def program(traces, programs=PROGRAMS):
    def add(f):
        programs.append(pytest.param(f, traces, id=f.__name__))
        return f

    return add


class ForLoops:
    """`for` statements that are left."""

    @program(2)
    def newton(p):
        x = np.ones(3)
        for _ in range(100):
            step = (x**3 + p[0] * x - p) / (3 * x**2 + p[0])
            x = x - step
            if np.max(np.abs(step)) < 1e-10:
                break
        return np.sum(x**2)

    @program(2)
    def test_before_the_update(p):
        x = p[0] + 1.0
        for _ in range(100):
            step = (x * x - p[0]) / (2.0 * x)
            if abs(step) < 1e-9:
                break
            x = x - step
        return x * p[1]

    @program(2)
    def square_root_of_what_vanishes(p):
        x, total = p[0] * 1.0, 0.0
        for _ in range(60):
            x = x * 0.5 - 0.01
            if x < 0:
                break
            total = total + np.sqrt(x)
        return total

    @program(2)
    def number_of_iterations(p):
        x = p[0]
        for k in range(200):  # noqa: B007
            x = x * 0.8
            if x < 0.05:
                break
        return x * (k + 1), k

    @program(2)
    def counter(p):
        x, steps, t = p[0], 0, 0.0
        for _ in range(200):
            x = x * 0.8
            steps += 1
            t += 0.25
            if x < 0.05:
                break
        return x + t, steps

    @program(2)
    def with_else(p):
        x = p[0]
        for _ in range(200):
            x = 0.7 * x + 0.1 * np.sin(x)
            if x < 0.05:
                x = x * 3
                break
        else:
            x = x * 0.0
        return x

    @program(None)
    def two_conditions(p):
        a, b = p[0], p[1]
        for _ in range(100):
            a, b = 0.9 * a + 0.01 * b, 0.8 * b
            if a < 0.2 and b < 0.01:
                break
        return a * b

    @program(3)
    def two_exits(p):
        a = p[0]
        for k in range(100):
            a = 0.9 * a
            if a < 0.2:
                a = a * 2
                break
            if k * p[1] > 9.0:
                a = a * 5
                break
        return a

    @program(2)
    def returns_from_within(p):
        x = p[0]
        for k in range(100):
            x = x * 0.8 + 0.001 * p[1]
            if x < 0.1:
                return x * k
        return x

    @program(2)
    def rows(p):
        table, total = np.linspace(0.0, 1.0, 90).reshape(30, 3), p[0]
        for row in table:
            total = total + np.sum(row * p)
            if total > 5.0:
                break
        return total * row[0]

    @program(2)
    def subscripts(p):
        table, total = np.linspace(0.0, 1.0, 90).reshape(30, 3), p[0]
        for i in range(30):
            total = total + table[i, 1] * p[1] + table[i, 2]
            if total > 5.0:
                break
        return total

    @program(2)
    def enumerated(p):
        weights, total = np.linspace(0.2, 1.0, 40), p[0]
        for i, w in enumerate(weights):
            total = total + w * p[1] * i
            if total > 12.0:
                break
        return total

    @program(None)
    def writes(p):
        x = np.zeros(40)
        x[0] = p[0]
        for i in range(39):
            x[i + 1] = 0.8 * x[i] + 0.01
            if x[i + 1] < 0.2:
                break
        return np.sum(x * x)

    @program(2)
    def writes_in_place(p):
        x = p * 1.0
        for _ in range(60):
            x *= 0.8
            x[1] += 0.01
            if x[0] < 0.1:
                break
        return np.sum(x)

    @program(None)
    def appends(p):
        errors, x = [], p[0]
        for _ in range(50):
            x = 0.8 * x
            errors.append(x)
            if x < 0.2:
                break
        return np.sum(np.array(errors))

    @program(2)
    def appends_on_all_paths(p):
        states, x, peak = [], p[0], 0.0
        for i in range(60):
            x = x + np.sin(p[1] * i)
            peak = max(peak, x)
            if x < 1.0:
                x = 2.0 - x
            states.append(x)
        return np.sum(np.array(states) ** 2) + peak * states[7], states[59]

    @program(2)
    def appends_tuples(p):
        states, y = [], p[:2] * 1.0
        for i in range(40):
            y = y * np.cos(i) + p[1]
            if y[0] > 1.0:
                y = y * 0.5
            state = (y, (y[1], i))
            states.append(state)
        y += 1.0
        states[3][0][0] = 5.0
        return sum(np.sum(a) * b * i for a, (b, i) in states) + np.sum(y * state[0])

    @program(None)
    def appends_one_of_two_arrays(p):
        states, x = [], p[0]
        for i in range(40):
            x = x * 0.9 + 0.2 * np.sin(i)
            states.append(p if x > 0.5 else p[::-1] * x)
        return np.sum(np.array(states) * np.arange(40)[:, None])

    @program(None)
    def appends_on_one_path(p):
        states, x = [], p[0]
        for i in range(40):
            x = x * 0.9 + 0.2 * np.sin(i)
            if x > 0.5:
                states.append(x)
        return np.sum(np.array(states)) * len(states) + x

    @program(None)
    def skips(p):
        x = p[0]
        for _ in range(40):
            x = x * 0.9
            if x > 1.0:
                continue
            x = x * 0.8
            if x < 0.05:
                break
        return x

    @program(2)
    def loop_in_loop(p):
        total = 0.0
        for i in range(7):
            y = p[0]
            for _ in range(60):
                y = y - (y * y - 1.0 - 0.1 * i) / (2.0 * y) * 0.7
                if abs(y * y - 1.0 - 0.1 * i) < 1e-6:
                    break
            total = total + y
        return total

    @program(2)
    def loop_after_loop(p):
        x = p[0]
        for _ in range(60):
            x = x * 0.8
            if x < 0.3:
                break
        for _ in range(60):
            x = x + 0.1 * p[1]
            if x > 1.0:
                break
        return x

    @program(3)
    def index_in_what_is_computed(p):
        x = p[0]
        for k in range(1, 80):
            x = x - x / (k + 1.0)
            if x < 0.1:
                break
        return x * p[1]


def _halvings(x, least):
    steps = 0
    while x > least:
        x = x * 0.5 + 0.01 * least
        steps += 1
    return x, steps


class WhileLoops:
    """`while` statements."""

    @program(2)
    def fixed_point(p):
        x, change = p[0], 1.0
        while change > 1e-9:
            new = 0.5 * (x + p[1] / x)
            change = abs(new - x)
            x = new
        return x * p[0]

    @program(2)
    def with_limit(p):
        x, change, k = np.ones(3) * p[0], 1.0, 0
        while change > 1e-9 and k < 60:
            step = 0.5 * (x - p / x)
            x = x - step
            change = np.max(np.abs(step))
            k += 1
        return np.sum(x) * k

    @program(2)
    def limit_first(p):
        x, change, k = np.ones(3) * p[0], 1.0, 0
        while k < 60 and change > 1e-9:
            step = 0.5 * (x - p / x)
            x = x - step
            change = np.sqrt(np.sum(step**2))
            k += 1
        return np.sum(x), k

    @program(2)
    def forever(p):
        x = p[0]
        while True:
            x = 0.8 * x + 0.001
            if x < 0.05:
                break
        return x * p[1]

    @program(2)
    def forever_with_return(p):
        x, n = p[0], 0
        while True:
            new = 0.5 * (x + p[1] / x)
            n += 1
            if abs(new - x) < 1e-8:
                return new, n
            x = new

    @program(2)
    def until_done(p):
        x, done = p[0], False
        while not done:
            x = 0.9 * x
            done = x < 0.1
        return x

    @program(2)
    def time_steps(p):
        t, x, h = 0.0, p[0], 0.0625
        while t < p[0]:
            x = x + h * (p[1] - x * x)
            t += h
        return x * t

    @program(2)
    def names_after_the_loop(p):
        x, change = p[0], 1.0
        while change > 1e-6:
            new = np.sqrt(1.0 + x)
            change = abs(new - x)
            slope = 0.5 / new
            x = new
        return x * slope + change

    @program(2)
    def with_else(p):
        x, k = p[0], 0
        while x > 0.02:
            x = x * 0.8
            k += 1
            if k > 50:
                break
        else:
            x = x * 3.0
        return x

    @program(None)
    def choice_in_an_expression(p):
        s, x = p[1], p[0]
        while x > 0.02:
            x = x * 0.7
            s = s + (x * 2.0 if x > 0.5 else x * x)
        return s

    @program(None)
    def branch(p):
        s, x = p[1], p[0]
        while x > 0.02:
            x = x * 0.8
            if x > 1.0:
                s = s + x
            else:
                s, x = s * x, x * 0.9
        return s

    @program(None)
    def skips(p):
        s, x = p[1], p[0]
        while x > 0.02:
            x = x * 0.8
            if x > 1.0:
                continue
            s = s + x
        return s

    @program(2)
    def function_called_twice(p):
        a, m = _halvings(p[0], 0.01)
        b, n = _halvings(p[0] * 3.0 + a, 0.02)
        return a * b + b, m + n

    @program(2)
    def in_a_for_statement(p):
        total = 0.0
        for i in range(4):
            x, change = 1.0 + i, 1.0
            while change > 1e-8:
                new = 0.5 * (x + p[0] / x)
                change = abs(new - x)
                x = new
            total = total + x * p[1]
        return total

    @program(None)
    def flag_in_a_for_statement(p):
        total, log = 0.0, []
        for i in range(3):
            x, found = p[0] + i, False
            while x > 0.05:
                x = x * 0.7
                if found:
                    break
                if x < 0.3:
                    found = True
            log.append(x)
            total = total + x * p[1]
        return total + log[0]

    @program(None)
    def in_a_while_statement(p):
        total, y = 0.0, p[0]
        while y > 0.3:
            x = y
            while x > 0.1:
                x = 0.6 * x
            total = total + x
            y = 0.7 * y
        return total

    @program(2)
    def bisection(p):
        low, high = p[0] * 0.0, p[0] + 2.0
        while high - low > 1e-6:
            middle = 0.5 * (low + high)
            step = (middle - low) * np.tanh(p[0] * 2.0 - middle)
            low, high = low + 0.1 * abs(step), middle
        return high * p[1]

    @program(2)
    def says_why_it_ends(p):
        x, k, why = p[0], 0, "limit"
        while k < 60:
            x = 0.8 * x
            if x < 0.05:
                why = "small"
                warnings.warn("small", stacklevel=1)
                break
            if not x < 1e6:
                raise ValueError(f"no number: {x}")
            k += 1
        return x * len(why)

    @program(2)
    def arrays(p):
        v = p * 1.0
        matrix = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 0.5]])
        error = 1.0
        while error > 1e-7:
            w = matrix @ v * p
            w = w / np.sqrt(np.sum(w * w))
            error = np.sum((w - v) ** 2)
            v = w
        return v @ matrix @ v

    @program(None)
    def writes(p):
        x, k = np.zeros(60), 0
        x[0] = p[0]
        while x[k] > 0.1:
            x[k + 1] = 0.8 * x[k]
            k += 1
        return np.sum(x)

    @program(None)
    def pops(p):
        todo, total = [1.0, 2.0, 3.0], p[0]
        while total < 40.0 and todo:
            total = total * 2.0 + todo.pop()
        return total

    @program(None)
    def may_bind_no_array(p):
        x, s = p * 1.0, p[0] * 0.2
        y = x
        for _ in range(20):
            if s > 0.6:
                y = y * 0.95
            s = s * 0.9
        y[2] = 7.0
        return x[2], y[0] * s

    @program(None)
    def may_take_no_iteration(p):
        x = p * 1.0
        y = x
        for _ in range(9):
            if y[0] < 1.8:
                break
            y = y * 0.95
        y[2] = 7.0
        return x[2], y[0]

    @program(None)
    def may_take_few_iterations(p):
        x = p * 1.0
        now, before = x, x * 2.0
        while now[0] > 1.8:
            now, before = now * 0.8, now
        before[2] = 7.0
        return x[2], now[0], before[0]

    @program(None)
    def changes_a_dict(p):
        state = {"x": p[0], "n": 0}
        while state["x"] > 0.1:
            state["x"] = state["x"] * 0.8
            state["n"] += 1
        return state["x"] * state["n"]

    @program(3)
    def integer_tests(p):
        n, total = int(10 * 1.0), 0.0
        x = p[0]
        while np.floor(x) >= 1:
            x = x * 0.9
            total = total + x
        return total * n

    @program(None)
    def catches(p):
        x, k = p[0], 0
        while x > 0.05:
            x = x * 0.8
            try:
                if x < 0.5 and k % 2:
                    raise ValueError
            except ValueError:
                x = x * 0.5
            k += 1
        return x

    def with_long_body(name, head):
        """A loop whose jumps are too far for one instruction."""
        body = "x = x * 0.99 + p[1] * 0.001 * np.sin(x); " * 40
        space = {"np": np}
        exec(f"def {name}(p):\n x = p[0]\n {head}{body}\n return x", space)
        program(2)(space[name])

    @program(None)
    def selection_sort(p):
        v = np.sin(np.arange(12) * p[0] * 9.0) * p[1]
        for i in range(12):
            least = i
            for j in range(i + 1, 12):
                if v[j] < v[least]:
                    least = j
            v[i], v[least] = v[least] * 1.0, v[i] * 1.0
        return v @ np.linspace(0.0, 1.0, 12)

    def executed(text):
        """A program whose functions are of no module."""
        space = {}
        exec(text, space)
        program(2)(space["calls_what_was_executed"])

    executed("""
def calls_what_was_executed(p):
    def shrunk(x):
        return x * 0.8

    x = p[0]
    while x > 0.1:
        x = shrunk(x)
    return x
""")

    with_long_body("a_long_while", "while x > 0.1: ")
    with_long_body("a_long_branch", "for i in range(20):\n  if x < 0.1: break\n  ")


class LeftToOtherLoops:
    """A `while` statement that is left to a loop around it."""

    @program(None)
    def to_a_for_statement(p):
        x = p[0] * 0.3
        for _ in range(5):
            while True:
                x = x * 0.8
                if abs(x) < 0.05:
                    break
        return x

    @program(None)
    def to_a_while_statement(p):
        x, total, n = p[0] * 0.3, 0.0, 0
        while n < 4:
            while True:
                x, n = x * 0.8 + 0.001, n + 1
                if x < 0.05:
                    total = total + x
                    break
            x = x + 0.2 * p[1]
        return total, n

    @program(None)
    def to_a_test_of_values(p):
        x, y, n = p[0] * 0.5, p[1], 0
        while y > 0.1:
            while True:
                x, n = x * 0.7, n + 1
                if x < 0.2 * y:
                    break
                if n > 100:
                    continue
                x = x + 0.001
            y, x = y * 0.6, x + 0.1 * p[2]
        return x + y, n

    @program(None)
    def from_either_of_two(p):
        x, rest, n, known = p[0] * 0.13, 0.0, 0, False
        for _ in range(2):
            while True:
                n += 1
                if abs(x) < 0.05:
                    break
                while True:
                    x = x * 0.8
                    if abs(x) < 0.2:
                        break
                    if known:
                        continue
                    rest = rest + 0.1 * rest
        return x + rest, n

    @program(None)
    def by_a_counter(p):
        x = p[0] * 0.3
        for _ in range(4):
            k = 0
            while True:
                k += 1
                if k >= 4:
                    break
                x = x * 0.8
                if abs(x) < 0.05:
                    break
        return x, k

    @program(None)
    def by_what_is_no_value(p):
        x, n = p[0], 0
        for word in ["next"] * 40:
            while True:
                x = x * 0.9 + 0.001 * p[1]
                if abs(x) < 0.05:
                    break
                if word == "next":
                    n += 1
                    break
        return x, n

    @program(None)
    def by_an_exception(p):
        x, n = p[0], 0
        for i in range(8):
            try:
                while True:
                    n += 1
                    x = x * 0.9 + 0.01 * p[1]
                    if abs(x) < 1.0:
                        break
                    [0, 1, 2][i]
            except IndexError:
                x = x + 0.1
        return x, n


def _shrunk(a, b):
    n = 0
    while abs(a) > 0.2:
        a, n = a * 0.7 + 0.01 * b, n + 1
        if n > 30:
            break
    return a


def _root(x, y):
    for _ in range(50):
        step = (x * x - y) / (2 * x)
        x = x - step
        if abs(step) < 1e-12:
            break
    return x


class ShortLoopsOfHelpers:
    """Helpers with loops of a few iterations, called again and again: not all from loops that are
    rolled, and some with more iterations than before."""

    @program(3)
    def from_a_comprehension(p):
        return sum([_shrunk(p[0] + 0.1 * i, p[1]) for i in range(12)])

    @program(3)
    def from_a_generator(p):
        return sum(_shrunk(p[0] * i, p[1]) * _root(1.0, p[0] + i) for i in range(12))

    @program(3)
    def from_a_dict(p):
        found = {i: _root(p[1], p[0] + i) for i in (1, 50, 3, 2000)}
        return sum(found.values())

    @program(3)
    def longer_from_call_to_call(p):
        return sum(_shrunk(p[0] * 8.0**i, p[1]) for i in range(6))

    @program(3)
    def long_after_short(p):
        x = 0.0
        for n in [3, 4, 400]:
            a = p[0]
            while abs(a) > p[1] * 0.99**n:
                a = a * 0.99
            x = x + a
        return x


class NumbersOfLoopsThatAreLeft:
    """The number of the iteration where an inner loop is left, which begins or ends with the number
    of the outer one."""

    @program(None)
    def read_after_the_outer_loop(p):
        y, k = 0.7 - p[1], 0
        for i in range(9):
            for k in range(i, 9):  # noqa: B007
                if y < 0:
                    break
        return 2 * y, k

    @program(None)
    def read_after_the_inner_loop(p):
        y, total = 0.7 - p[1], 0.0
        for i in range(20):
            for k in range(i, 20):
                if y * k > p[0]:
                    break
            total = total + k * y
        return total

    @program(None)
    def where_the_last_loops_have_no_iterations(p):
        y, k = 1.5 - p[1], 0
        for i in range(20):
            for k in range(i, 19):  # noqa: B007
                y = y * 0.99
                if y < 0.5:
                    break
            y = y + 0.001 * k
        return y, k

    @program(None)
    def positions(p):
        x, total = np.concatenate([p] * 8), p[1] - 0.7
        for i in range(20):
            for k in range(i + 1, 24):
                if total < 0.1 * k:
                    break
            total = total * 0.9 + 0.1 * x[k] * x[k - i]
        return total


def nested(traces):
    """A program of an array and a number of outer iterations, which are one loop of the trace."""
    return program(traces, NESTED)


class NestedLoops:
    """Loops around loops that branch on values."""

    @nested(1)
    def newton_for_each_element(p, n):
        points, total = np.linspace(1.0, 2.0, n), p[1] * 0.0
        for x in points:
            y = x * 1.0
            while abs(y**3 - p[0] * y - 9.0) > 1e-9:
                y = y - (y**3 - p[0] * y - 9.0) / (3.0 * y * y + p[0])
            total = total + y * p[1]
        return total

    @nested(None)
    def bisection_for_each_element(p, n):
        points, found = np.linspace(0.1, 2.0, n), np.zeros(n)
        for i in range(n):
            low, high = p[0] * 0.0, p[0] * 0.0 + 8.0
            for _ in range(30):
                middle = 0.5 * (low + high)
                if middle**3 + middle > p[0] * points[i]:
                    high = middle
                else:
                    low = middle
            found[i] = low * p[1] + points[i] * p[2]
        return np.sum(found**2)

    @nested(None)
    def escape_times(p, n):
        points, total = np.linspace(-1.5, 0.5, n), p[2] * 0.0
        for c in points:
            x, y, k = c * 0.0, c * 0.0, 0
            while k < 20 and x * x + y * y < 4.0:
                x, y = x * x - y * y + c * p[0] * 0.3, 2.0 * x * y + 0.3 * p[1]
                k += 1
            total = total + 0.01 * np.sqrt(x * x + y * y) + k
        return total

    @nested(None)
    def reset_above_a_threshold(p, n):
        v, total = np.zeros(8), p[0] * 0.0
        for _ in range(n):
            for j in range(8):
                v[j] = v[j] + 0.1 * (p[0] * (1.0 + 0.1 * j) - v[j])
                if v[j] > 1.2:
                    v[j] = 0.0
                    total = total + p[1]
        return total + np.sum(v)

    @nested(None)
    def walls(p, n):
        x, v = np.linspace(0.1, 0.9, 9) * p[0], np.linspace(-1.0, 1.0, 9) * p[1]
        for _ in range(n):
            for i in range(9):
                x[i] = x[i] + 0.05 * v[i]
                if x[i] < 0.0:
                    x[i], v[i] = -x[i], -v[i]
        return np.sum(x**2) + v[3]

    @nested(None)
    def early_exercise(p, n):
        v = np.maximum(np.linspace(3.0, -3.0, n + 1) * p[0], 0.0)
        for i in range(n - 1, -1, -1):
            for j in range(i + 1):
                stay, leave = 0.5 * v[j] + 0.49 * v[j + 1], p[1] * (1.0 - 0.15 * j)
                if leave > stay:
                    v[j] = leave
                else:
                    v[j] = stay
        return v[0] * p[2]

    @nested(None)
    def rare_contacts(p, n):
        x, energy = np.linspace(0.0, 1.0, n) ** 2 * p[0], p[1] * 0.0
        for i in range(n):
            for j in range(i):
                if x[i] - x[j] < 0.02:
                    energy = energy + (0.02 - x[i] + x[j]) * p[1]
        return energy + np.sum(x)

    @nested(None)
    def bounces(p, n):
        y, v, k = p[0] * 0.2, p[1] * 0.0, 0
        while k < n:
            low = y + 0.05 * v
            if low < 0.0:
                a, b = 0.0 * p[0], 0.0 * p[0] + 0.05
                for _ in range(20):
                    c = 0.5 * (a + b)
                    if y + c * v < 0.0:
                        b = c
                    else:
                        a = c
                y, v = a * p[2], -0.8 * v
            else:
                y, v = low, v - 0.05 * p[1] * 9.8
            k += 1
        return y + 0.1 * v

    @nested(None)
    def appended_sums(p, n):
        points, found = np.linspace(0.0, 2.0, 12), []
        for i in range(n):
            s = p[2] * 0.0
            for x in points:
                if x * p[0] > 1.0 + 0.1 * i:
                    s = s + x
            found.append(s * p[1])
        return np.sum(np.array(found) ** 2)
