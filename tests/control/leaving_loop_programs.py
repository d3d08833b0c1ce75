"""Programs with loops that end when a condition on values holds (`test_leaving_loops.py`), as
functions of one array. `traces`: how many traces serve calls with different numbers of iterations;
None: any number."""

import numpy as np
import pytest

PROGRAMS = []


def program(traces):
    def add(f):
        PROGRAMS.append(pytest.param(f, traces, id=f.__name__))
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
        for k in range(200):
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
