"""Programs with Python loops over arrays that get shorter, and ranges of integers that move; added
to the others."""

import numpy as np
from closure_loop_programs import PROGRAMS as PROGRAMS
from python_loop_programs import M, X, program

SINGLE = X.astype(np.float32)


class Shrinking:
    """Arrays of which each iteration makes a shorter one."""

    @program(True)
    def binomial_tree(x):
        v = np.maximum(x - 0.6, 0.0)
        for _ in range(11):
            v = 0.99 * (0.6 * v[1:] + 0.4 * v[:-1])
        return v[0]

    @program(True)
    def early_exercise(x):
        s, v = x * 2.0, np.maximum(1.0 - x, 0.0)
        for _ in range(9):
            s = s[:-1] * 1.02
            v = np.maximum(0.5 * v[1:] + 0.48 * v[:-1], 1.0 - s)
        return v, s

    @program(True)
    def trinomial_tree(x):
        v = np.exp(x)
        for _ in range(5):
            v = 0.2 * v[:-2] + 0.6 * v[1:-1] + 0.2 * v[2:]
        return v

    @program(True, M, X)
    def curve_by_de_casteljau(p, x):
        t = 0.3 * x[0]
        for _ in range(10):
            p = (1.0 - t) * p[:-1] + t * p[1:]
        return p[0] * x

    @program(True, M)
    def two_assets(m):
        for _ in range(7):
            m = 0.25 * (m[1:, 1:] + m[:-1, 1:] + m[1:, :-1] + m[:-1, :-1])
        return np.sin(m)

    @program(True)
    def divided_differences(x):
        c = np.sin(x)
        for k in range(1, 9):
            c = (c[1:] - c[:-1]) / (x[k:] - x[:-k]) * 0.3
        return c

    @program(True)
    def interpolation_by_neville(x):
        p = np.cos(x)
        for k in range(1, len(x)):
            p = ((1.1 - x[k:]) * p[:-1] - (1.1 - x[:-k]) * p[1:]) / (x[:-k] - x[k:])
        return p[0]

    @program(True, SINGLE)
    def single_precision(x):
        s = np.float32(0.0)
        for _ in range(9):
            x = np.tanh(x[1:] + x[:-1])
            s = s + np.sum(x)
        return s, x

    @program(None)
    def all_but_the_first(x):
        s = 0.0
        for _ in range(10):
            x = x[1:]
            s = s * 0.9 + np.sum(x**2)
        return s, x

    @program(True)
    def down_to_nothing(x):
        s = 0.0
        for _ in range(12):
            x = x[1:] * 0.9
            s = s + x.sum()
        return s, x

    @program(None)
    def beyond_nothing(x):
        for _ in range(9):
            x = x[2:] * 0.9
        return x

    @program(True, M, X)
    def in_a_loop_of_its_own(m, x):
        found = np.zeros(12)
        for i in range(12):
            v = m[i] * x
            for _ in range(11):
                v = np.sqrt(v[1:] * v[:-1])
            found[i] = v[0]
        return found

    @program(None, M)
    def as_often_as_an_outer_loop_says(m):
        found = np.zeros(12)
        for i in range(11):
            v = m[i]
            for _ in range(i):
                v = v[1:] + v[:-1]
            found[i] = v[0]
        return found

    @program(None)
    def another_array_of_the_same_length(x):
        y = x * 2.0
        for _ in range(9):
            x = x[1:] * 0.5
            y = y[:-1] + x
        return x, y

    @program(None)
    def lengths_are_asked_for(x):
        for _ in range(9):
            x = x[1:] / len(x)
        return x

    @program(None)
    def at_once(x):
        y = x
        for _ in range(6):
            y = x[1:] * 0.5
        return y

    @program(None)
    def written_before_it_shrinks(x):
        x = x.copy()
        for _ in range(8):
            x[0] = x[1] * 0.5
            x = x[1:] * 0.9
        return x

    @program(None)
    def branches(x):
        for _ in range(8):
            x = x[1:] * 0.5 if x[0] > 0.4 else x[1:] * 0.9
        return x


class Ranges:
    """`np.arange` of ends that move."""

    @program(True)
    def weights(x):
        s = 0.0
        for i in range(12):
            s = s + np.sum(x[: i + 1] * np.arange(i + 1))
        return s

    @program(True)
    def exponents(x):
        s, u = 0.0, 1.1 * x[0]
        for i in range(11, -1, -1):
            s = s + np.sum(x[: i + 1] * u ** np.arange(i, -1, -1.0) * u ** -np.arange(0.0, i + 1))
        return s

    @program(True)
    def positions(x):
        y = np.zeros(12)
        for i in range(1, 12):
            y[i] = np.sum(y[np.arange(i)] * np.arange(12 - i, 12, dtype=np.float32)) * 0.1 + x[i]
        return y

    @program(True)
    def of_one_length(x):
        s = 0.0
        for i in range(9):
            s += np.sum(x[np.arange(i, i + 3)] * np.arange(i + 3, i, -1))
        return s

    @program(None)
    def empty_at_first(x):
        s = 0.0
        for i in range(12):
            s += np.sum(x[4] * np.arange(4, i))
        return s

    @program(None)
    def in_larger_steps(x):
        s = 0.0
        for i in range(12):
            s += np.sum(x[i] * np.arange(0, i, 2))
        return s

    @program(None)
    def iterated(x):
        s = 0.0
        for i in range(12):
            for j in np.arange(i):
                s += x[i] * x[j]
        return s

    @program(None)
    def of_python_numbers(x):
        found = []
        for i in range(9):
            k = np.arange(i + 1)
            found.append(x[0] * k[-1] * len(k))
        return np.stack(found)
