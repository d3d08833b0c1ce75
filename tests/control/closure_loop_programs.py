"""Programs with Python loops around comprehensions, generators, closures, and containers of the
standard library (`test_python_loops.py`)."""

import functools
import itertools
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass

import numpy as np
from container_loop_programs import PROGRAMS as PROGRAMS  # all of them
from python_loop_programs import program


@dataclass
class Mass:
    weight: float
    rate: float = 0.3


def relaxed(f):
    @functools.wraps(f)
    def call(*args, **kwargs):
        return 0.5 * f(*args, **kwargs)

    return call


@relaxed
def decayed(y, rate, offset=None):
    is_plain = offset is None
    return y * rate if is_plain else y * rate + offset


class Chain:
    def __init__(self, x):
        self.masses = [Mass(0.5, x[0]), Mass(0.25), Mass(x[1])]
        self.scale, self.history = x[2], []

    def pull(self, y):
        return sum(m.weight * np.sin(m.rate * y) * self.scale for m in self.masses)

    def parts(self, y):
        for m in self.masses:
            yield m.weight * y * self.scale

    def by_weight(self, y):
        return {i: m.weight * y for i, m in enumerate(self.masses) if m.rate > -9.0}

    def update(self, y):
        self.scale = self.scale * 0.9 + 0.01 * np.sum(y)

    def checked(self, y):
        if np.sum(y) > 1e6:
            for m in self.masses:
                m.weight = 0.0
            raise ValueError(f"too large: {y}")
        return 0.9 * y


class Comprehensions:
    @program(True)
    def method_with_generator_expression(x):
        chain, y = Chain(x), x
        for _ in range(9):
            y = y - 0.1 * chain.pull(y)
        return y

    @program(True)
    def method_with_dict_comprehension(x):
        chain, y = Chain(x), x
        for _ in range(9):
            y = 0.5 * y + 0.1 * sum(v for k, v in chain.by_weight(y).items() if k != 1)
        return y

    @program(True)
    def generator_function(x):
        chain, y = Chain(x), x
        for _ in range(9):
            y = 0.5 * y + sum(chain.parts(y)) * 0.1
        return y

    @program(None)
    def generator_that_goes_on_over_iterations(x):
        parts, y = Chain(x).parts(x), x
        for _ in range(6):
            y = 0.5 * y + next(parts, 0.0)
        return y

    @program(True)
    def lists_in_the_loop(x):
        y, scales = x, (0.1, 0.2, 0.3)
        for i in range(9):
            y = y * 0.5 + sum([s * np.cos(y * i) for s in scales])
        return y

    @program(True)
    def captured_names_that_move(x):
        y, total = x, 0.0
        for _ in range(9):
            step = 0.1 * y
            total = total + sum(np.sum(step * k) for k in range(3))
            y = y - step * total
        return y, total

    @program(True)
    def arrays_and_stars(x):
        y = x
        for _ in range(9):
            first, *others = np.array([np.sum(y * k) for k in range(1, 4)])
            y = y * 0.9 + 0.001 * (first - sum(others))
        return y

    @program(True)
    def sets_and_nested_comprehensions(x):
        y = x
        for _ in range(9):
            pairs = [[i * j for j in range(i)] for i in range(1, 3)]
            y = 0.9 * y + 0.01 * sum({len(pair) for pair in pairs})
        return y

    @program(None)
    def loop_in_a_comprehension(x):
        return np.sum(np.array([x[j] * j * k for k in range(2) for j in range(12)]))

    @program(None)
    def comprehension_in_a_comprehension(x):
        rows = [[x[i] * x[j] for j in range(12)] for i in range(12)]
        return np.array(rows), {k: x[k] * 2 for k in range(8)}[7]

    @program(True)
    def itertools_and_reduce(x):
        y = x
        for _ in range(9):
            pairs = itertools.combinations((0.1, 0.2, 0.3), 2)
            y = functools.reduce(lambda z, pair: z * 0.9 + operator.mul(*pair), pairs, y)
        return y

    @program(True)
    def decorated_functions_with_keywords(x):
        y, options = x, {"rate": 0.9}
        for _ in range(9):
            y = decayed(y, **options) + decayed(y, **options, offset=x[0])
        return y


class Closures:
    @program(True)
    def reads_what_the_loop_binds(x):
        y, scale = x, x[0]

        def force(z):
            return z * scale

        for _ in range(9):
            y = y - 0.1 * force(y)
            scale = scale * 0.9
        return y, scale, force(x)

    @program(None)
    def reads_the_index(x):
        y, i = x, 5

        def scaled(z):
            return z * 0.1 * i

        for i in range(9):  # noqa: B007
            y = y * 0.5 + scaled(y)
        return y, scaled(y), i

    @program(None)
    def binds_what_the_loop_reads(x):
        y, count = x, 0

        def counted(z):
            nonlocal count
            count += 1
            return z * 0.1 * count

        for _ in range(9):
            y = y * 0.5 + counted(y)
        return y, count

    @program(None)
    def kept_closures_read_the_last(x):
        y, kept = x, []
        for i in range(9):
            y = y * 0.9 + i
            kept.append(lambda: y * 2.0)  # noqa: B023
        return tuple(f() for f in kept[:3])

    @program(None)
    def kept_closures_with_defaults(x):
        y, kept = x, []
        for i in range(9):
            y = y * 0.9 + i
            kept.append(lambda z=y: z * 2.0)
        return tuple(f() for f in kept[:3])

    @program(None)
    def closure_of_the_iteration_before(x):
        y, before = x, None
        for i in range(9):
            now = y * 0.5
            y = y * 0.9 + (0.0 if before is None else before()) + i
            before = lambda: now  # noqa: B023, E731
        return y, before()

    @program(True)
    def made_in_each_iteration(x):
        y, scale = x, 0.1
        for _ in range(9):
            rate = scale * np.mean(y)
            flow = lambda z: z * rate  # noqa: B023, E731
            y = y - flow(y) * flow(x)
        return y, flow(x)

    @program(True)
    def raises_in_other_iterations(x):
        chain, y = Chain(x), x
        for _ in range(9):
            y = chain.checked(y)
        return y


def _limited(y, limit):
    if np.sum(y) > limit:
        raise ValueError("too large")
    return y * 1.1


class Raising:
    @program(None)
    def ends_the_loop(x):
        t, n, y = 0.0, 0, x
        try:
            for i in range(12):  # noqa: B007
                t, n = t + 0.1, n + 2
                y = _limited(y, 17.0)
        except ValueError:
            t, n = t + 1.0, n + 1
        return y, np.sin(t), t, n, i

    @program(None)
    def ends_inner_loops(x):
        t, y, s = 0.0, x, np.zeros(3)
        for j in range(3):
            try:
                for i in range(12):
                    t = t * 0.9 + 0.1
                    s[j] = s[j] + i
                    y = _limited(y, 40.0 - 12.0 * j)
            except ValueError:
                y = y * 0.5
        return y, t, s, i


class StandardContainers:
    @program(True)
    def window(x):
        y, window = x, deque([0.1, 0.2, 0.3])
        for _ in range(9):
            old = window.popleft()
            window.append(np.sum(y) * 0.01)
            y = y * 0.9 + old
        return y, *window

    @program(True)
    def window_that_drops_its_first(x):
        y, window = x, deque([x[0], x[1], x[2]], maxlen=3)
        for _ in range(9):
            window.append(0.5 * sum(window))
            y = y * 0.9 + window[0]
        return y, *window, window.maxlen

    @program(True)
    def totals(x):
        totals, y = defaultdict(float), x
        totals["a"] = x[0]
        for _ in range(9):
            totals["a"] += np.sum(y) * 0.1
            y = y * 0.9
        return totals["a"], totals["b"], len(totals)

    @program(None)
    def totals_that_appear(x):
        totals, y = defaultdict(list), x
        for i in range(9):
            totals[i % 2].append(np.sum(y))
            y = y * 0.9
        return *totals[1], len(totals)

    @program(True)
    def ordered(x):
        state, counts = OrderedDict(a=x, b=x * 2.0), Counter("aab")
        for _ in range(9):
            state["a"], state["b"] = state["b"] * 0.5 * counts["a"], state["a"] * 0.9
        return state["a"], state["b"], [*state].index("b")

    @program(None)
    def counts_that_change(x):
        counts, y = Counter(), x
        for i in range(9):
            counts.update([i % 3])
            y = y * 0.9 + counts[0]
        return y, counts[0], counts[2]

    @program(True)
    def method_with_the_name_of_one_of_dicts(x):
        chain, y = Chain(x), x
        for _ in range(9):
            y = y * 0.9 + chain.scale
            chain.update(y)
        return y, chain.scale

    @program(True)
    def updated_dict(x):
        state = {"y": x, "t": 0.0}
        for _ in range(9):
            state.update(y=state["y"] * 0.9 + state["t"], t=state["t"] + 0.1)
        return state["y"], state["t"]

    @program(None)
    def stack_that_is_emptied(x):
        y, stack = x, [float(i) for i in range(12)]
        for _ in range(9):
            y = y * 0.9 + stack.pop()
        return y, len(stack)

    @program(None)
    def list_that_turns(x):
        y, turns = x, [0.1, x[0], 0.3, 0.4]
        for _ in range(9):
            turns.insert(0, turns.pop())
            y = y * 0.9 + turns[0]
        return y, *turns


class FreshArrays:
    @program(True)
    def edges(x):
        y = np.concatenate([x, x * 0.5, x * 0.2, x, x, x])
        for _ in range(9):
            z = np.sin(y)
            z[0] = 0.5 * y[1]
            z[1:-1] += 0.1 * y[:-2]
            y = 0.5 * y + z
        return y

    @program(True)
    def positions(x):
        y, at = np.concatenate([x] * 6), np.array([3, 40, 7])
        for _ in range(9):
            z = np.sin(y)
            z[at] += 0.5 * y[1]
            y = 0.5 * y + z
        return y

    @program(None)
    def positions_of_what_goes_on(x):
        y, at = np.concatenate([x] * 6), np.array([3, 40, 7])
        for _ in range(9):
            y[at] += 0.5 * np.sin(y[1])
        return y
