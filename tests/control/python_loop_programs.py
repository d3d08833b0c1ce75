"""Programs with Python loops (`test_python_loops.py`). `rolled`: whether a trace of them has loop
equations; None: it may."""

import numpy as np
import pytest

X = np.linspace(0.3, 1.7, 12)
M = np.linspace(-1.0, 1.2, 144).reshape(12, 12) ** 2 + 0.5

PROGRAMS = []


def program(rolled, *args):
    def add(f):
        PROGRAMS.append(pytest.param(f, rolled, args or (X,), id=f.__name__))
        return f

    return add


def _helper(y, i, scale=0.1):
    return y + scale * np.cos(y * i)


def _helper_with_loop(y):
    for _ in range(8):
        y = y - 0.1 * y**3
    return y


class Carried:
    """Carried numbers and arrays."""

    @program(True)
    def sums(x):
        s = 0
        for i in range(12):
            s += x[i] * i
        return s

    @program(True)
    def same_start(x):
        a = b = x[0]
        for _ in range(9):
            a = a * 0.9 + b
        return a + b

    @program(False)
    def counts_in_python(x):
        k, t = 0, 0.1
        for i in range(10):
            k = k + i * i
            t = t * 1.1 - 0.01
        return np.sum(x) * k + t, k, t

    @program(False)
    def value_of_the_last_iteration(x):
        for i in range(10):
            y = x * i
        return y, i

    @program(False)
    def nothing_before(x):
        for i in range(10):
            z = np.sin(x) * i
        return np.sum(z)

    @program(True)
    def an_invariant_branch(x, flag=True):
        y = x
        for i in range(9):
            if flag:
                y = y * 0.9
                y = y + i
            else:
                y = y - 1
        return y

    @program(True)
    def calls_a_function(x):
        def unused():
            return x

        y = x
        for i in range(9):
            y = _helper(y, i)
        return y

    @program(True)
    def loop_in_a_helper(x):
        return _helper_with_loop(x) + _helper_with_loop(2 * x)

    @program(True)
    def nested_loops(x):
        s = x[0] * 0
        for i in range(6):
            for j in range(7):
                s = s + x[i] * x[j] * (i + 2 * j)
            s = s * 0.99
        return s


class Iterated:
    """What is iterated."""

    @program(True, M)
    def rows(m):
        h = np.zeros(12)
        for row in m:
            h = np.tanh(h + row)
        return h

    @program(True, X)
    def zipped_with_plain(x):
        s = x[0]
        ts = np.linspace(0.0, 1.0, 12)
        for i, t in zip(range(3, 50, 2), ts):  # noqa: B905
            s = s * t + i + x[3]
        return s

    @program(True)
    def zip_of_unpacked_arrays(x):
        y, pairs = x, (np.linspace(0.0, 1.0, 14), 2.0 * x[:9])
        for row in zip(*pairs):  # noqa: B905
            y = y + row[1] * np.sin(y * row[0])
        for a, b in zip(x, *pairs[1:]):  # noqa: B905
            y = y * 0.9 + a * b
        return y


class Places:
    """Places that move."""

    @program(True, M)
    def reads_lines(m):
        s = 0.0
        for i in range(1, 11):
            s = s + np.sum(m[i] * m[i - 1]) + np.sum(m[:, i + 1]) + m[i, i] + np.sum(m[i, 2:7])
        return s

    @program(True)
    def reads_windows(x):
        s = 0.0
        for i in range(1, 11):
            s = s + np.prod(x[i - 1 : i + 2])
        return s

    @program(True)
    def writes_elements(x):
        out = np.zeros(12)
        for i in range(12):
            out[i] = np.sin(x[i]) * i
        return out

    @program(True)
    def writes_first_what_stands_there(x):
        out, s = np.zeros(3), x[0]
        out[1] = s
        for i in range(12):
            out[1] = s
            s = s * 0.9 + 0.1 * x[i]
        return out, s

    @program(True)
    def writes_first_what_was_read_there(x):
        out = x * 1.0
        s, t = out[1], out[2] + x[3]
        for _ in range(12):
            out[1], out[2] = s, t
            s, t = s * 0.9 + x[4], t * 0.9 + x[5]
        return out, s, t

    @program(True)
    def writes_an_argument_backwards(x):
        for i in range(10, -1, -1):
            x[i] -= 0.3 * x[i + 1]
        return np.sum(x * x)

    @program(True)
    def reads_ahead_and_behind(x):
        for i in range(2, 11):
            x[i] = 0.3 * x[i - 2] + 0.4 * x[i - 1] + 0.2 * x[i] + 0.1 * x[i + 1]
        return np.sum(x * x)

    @program(True)
    def writes_two_places(x):
        for i in range(11):
            x[i] = x[i] * 0.5
            x[i + 1] += x[i]
        return np.sum(x * x)

    @program(True)
    def writes_every_other(x):
        for i in range(0, 12, 2):
            x[i] = x[i] * x[1]
        return np.sum(x * x)

    @program(True)
    def reads_what_another_iteration_has_written(x):
        for i in range(1, 12):
            x[i] = x[i] * 0.5 + x[3]
        return np.sum(x * x)

    @program(True, M)
    def writes_rows(m):
        for i in range(1, 11):
            m[i] = 0.25 * (m[i - 1] + m[i + 1]) + 0.5 * m[i]
        return np.sum(m * m)

    @program(True, M)
    def writes_columns(m):
        p = np.zeros((12, 12))
        for j in range(1, 12):
            p[1:-1, j] = 0.5 * p[1:-1, j - 1] + m[1:-1, j]
        return np.sum(p * p)

    @program(True, M)
    def writes_apart(m):
        for j in range(12):
            m[0, j] += np.dot(m[3:, j], m[3:, 0])
        return np.sum(m * m)

    @program(True, M)
    def writes_a_fixed_place(m):
        for k in range(12):
            m[2, 3] += m[4, k] * m[k, 5]
        return np.sum(m * m)

    @program(True, M)
    def gauss_seidel(a):
        for _ in range(4):
            for i in range(1, 11):
                a[i, 1:-1] += a[i - 1, :-2] + a[i + 1, 2:]
                for j in range(1, 11):
                    a[i, j] += a[i, j - 1]
                    a[i, j] /= 9.0
        return np.sum(a * a)

    @program(True, M)
    def jacobi(a):
        b = np.zeros_like(a)
        for _ in range(6):
            b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
            a[1:-1, 1:-1] = b[1:-1, 1:-1]
        return np.sum(a * b)

    @program(True, M)
    def through_a_view(m):
        for i in range(1, 12):
            row = m[i]
            row *= 0.5
            row[2] = m[i - 1, 3]
        return np.sum(m * m)

    @program(None)
    def wraps_around(x):
        s = 0.0
        for i in range(12):
            s = s + x[i] * x[i - 1]
        return s

    @program(None, M)
    def grows(m):
        for i in range(12):
            m[i, 0] = m[i, :i] @ m[:i, 0]
        return np.sum(m * m)


class Iterations:
    """Iterations that differ, or do more than compute."""

    @program(True)
    def branches_on_the_index(x):
        y = x
        for i in range(10):
            y = y * 2 if i == 5 else y + 0.1
        return y

    @program(True)
    def backwards(x):
        y = np.zeros(12)
        y[11] = x[11]
        for i in reversed(range(11)):
            y[i] = 0.5 * y[i + 1] + x[i]
        for row in reversed(x):
            y = y * 0.9 + row
        return y, i

    @program(None)
    def backwards_through_dicts_and_lists(x):
        y, rates = x, {"a": 0.1, "b": 0.2}
        for name in reversed(rates):
            y = y * rates[name]
        for factor in reversed([x, 2.0 * x, 0.5]):
            y = y + factor
        for factor in reversed([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]):
            y = y * 0.9 + factor
        return y

    @program(True)
    def numbers_in_lists(x):
        y, steps = x, [0.1, 0.2, 0.3, 0.1] * 4
        for step, k in zip(steps, range(16)):  # noqa: B905
            y = y + step * np.cos(k * y)
        for k, step in enumerate(steps):
            y = y * (1 - 0.1 * step) + k
        return y, step

    @program(True)
    def zips_that_are_enumerated(x):
        y = 0.0
        for k, (a, b) in enumerate(zip(x, 2 * x)):  # noqa: B905
            y = y * 0.9 + a * b + k
        return y

    @program(None)
    def a_zip_that_has_been_read(x):
        y, pairs = 0.0, zip(x, 2 * x, strict=False)
        next(pairs)
        plain = zip(x, 3 * x)  # noqa: B905
        next(plain)
        for k, (a, b) in enumerate(pairs):
            y = y * 0.9 + a * b + k
        for k, (a, b) in enumerate(plain):
            y = y * 0.9 + a * b + k
        return y

    @program(True)
    def branches_once_on_the_index(x):
        y = x
        for i in range(40):
            if i > 0:
                y = y * 0.9 + x
        return y

    @program(True)
    def branches_on_a_number(x):
        y, t = x, 0.0
        for _ in range(60):
            y = y * 0.9 + (x[0] if t < 1.0 else 0.0)
            t += 0.05
        return y, t

    @program(True)
    def has_segments(x):
        y, kept = x, []
        for i in range(90):
            y = y * 0.9 + i
            if i % 30 == 0:
                kept.append(y)
        return y, np.array(kept), len(kept)

    @program(True)
    def writes_ahead_but_once(x):
        y = np.zeros(40)
        for i in range(40):
            if i < 39:
                y[i + 1] = 0.9 * y[i] + x[0]
        return y

    @program(True)
    def breaks_late(x):
        y = x
        for i in range(100):
            y = y * 0.9
            if i == 50:
                break
        else:
            y = y + 1.0
        return y, i

    @program(True)
    def takes_turns(x):
        y = x
        for i in range(40):
            y = y * 0.9 if i % 2 else y + x[0]
        return y

    @program(True)
    def all_pairs_but_equal_ones(x):
        total = 0.0
        for i in range(12):
            for j in range(12):
                if i != j:
                    total += 1.0 / ((x[i] - x[j]) ** 2 + 0.1)
        return total

    @program(True)
    def skips_itself(x):
        force = np.zeros(12)
        for i in range(12):
            f = np.zeros(2)
            for j in range(12):
                if j == i:
                    continue
                f = f + (x[i] - x[j]) * np.array([1.0, x[j]])
            force[i] = f[0] * f[1]
        return force

    @program(True)
    def branches_in_both_loops(x):
        y = np.ones(12)
        for i in range(12):
            if x[i] > 1.0:
                y[i] = y[i] * x[i]
            for j in range(12):
                if x[j] > x[i]:
                    y[i] = y[i] + 0.1 * x[j]
                elif x[j] > 0.5:
                    y[i] = y[i] - 0.1 * x[j] * y[i]
                else:
                    y[i] = 0.5 * y[i]
        return y

    @program(None)
    def pairs_that_are_close(x):
        force, energy = np.zeros(12), x[0] * 0.0
        for i in range(12):
            for j in range(i):
                distance = (x[i] - x[j]) ** 2
                if distance < 0.5:
                    force[i] += distance
                    force[j] -= distance
                    energy += 1.0 / (distance + 0.1)
        return force, energy

    @program(None)
    def an_inner_loop_branches_on_its_index(x):
        y = np.zeros(30)
        for i in range(30):
            for j in range(20):
                if j > 0:
                    y[i] = 0.9 * y[i] + x[0] * j
        return y

    @program(None)
    def an_inner_loop_branches_on_both(x):
        y = np.zeros((20, 20))
        for i in range(20):
            for j in range(20):
                if i != j:
                    y[i, j] = x[0] * (i - j)
        return y

    @program(None)
    def branches_on_values(x):
        y = x
        for _ in range(10):
            y = y * 1.5 if y[0] < 2 else y - 1
        return y

    @program(True)
    def breaks_on_values(x):
        y = x
        for i in range(100):  # noqa: B007
            y = y * 0.9
            if y[0] < 0.2:
                break
        else:
            y = y + 100
        return y, i

    @program(False)
    def reads_a_list(x):
        factors = [1.0, 2.0, 3.0] * 4
        s = 0.0
        for i in range(10):
            s = s + factors[i] * x[i]
        return s

    @program(None)
    def settles(x):
        first, y = True, x
        for _ in range(10):
            if first:
                y = y * 3
                first = False
            y = y + 1
        return y

    @program(False)
    def alternates(x):
        sign, y = True, x
        for _ in range(10):
            y = y * 2 if sign else y - 1
            sign = not sign
        return y

    @program(False)
    def swaps_buffers(x):
        u, v = x, np.zeros(12)
        for _ in range(7):
            v[1:] = 0.5 * u[:-1] + u[1:]
            u, v = v, u
        return np.sum(u) - np.sum(v * v)

    @program(False)
    def counts_in_an_array(x):
        calls = np.zeros(1, int)
        y = x
        for _ in range(10):
            calls[0] += 1
            y = y * (1 + 0.1 / int(calls[0]))
        return y

    @program(True)
    def an_attribute_changes(x):
        class Box:
            total = 0.0

        box = Box()
        for i in range(10):
            box.total = box.total + x[i]
        return box.total

    @program(False)
    def a_generator_expression(x):
        return sum(x[i] * i for i in range(10))

    @program(False)
    def powers_of_two(x):
        k = 1
        for _ in range(80):
            k = k * 2
        return x * float(k >> 75)

    @program(False)
    def until(x):
        y, i = x, 0
        while i < 10:
            y = y * 0.9 + i
            i += 1
        return y

    @program(None)
    def two_names_of_an_array(x):
        y = x
        for i in range(10):
            x[i] = x[i] * 0.5
            y[i + 1] = y[i + 1] + x[i]
        return np.sum(y * x)

    @program(None)
    def a_view_of_what_is_written(x):
        part = x[2:5]
        for i in range(10):
            x[i] = x[i] + np.sum(part)
        return np.sum(x * x)

    @program(None)
    def reassigns_what_it_iterates(x):
        y = x
        for i in range(len(y)):
            y = y[::-1] * 1.01
            y = y + i
        return y

    @program(None, M)
    def writes_through_a_view(m):
        part = m[2:9]
        for i in range(7):
            part[i] = part[i] * 0.5 + m[0]
        return np.sum(m * m)

    @program(None, M)
    def a_view_read_afterwards(m):
        row = m[3]
        for i in range(1, 12):
            m[i] = m[i] + 0.5 * m[i - 1]
        return np.sum(row * row)

    @program(None, M)
    def writes_what_it_iterates(m):
        for row in m:
            m[3] = row * 0.5 + m[2]
        return np.sum(m * m)

    @program(True)
    def binds_its_index(x):
        s = x[0]
        for i in range(10):
            i = 2 * i + 1
            s = s * 0.5 + i
        return s

    @program(None)
    def updates_and_rebinds(x):
        y = x.copy()
        for i in range(10):
            y += i
            z = y
            y = y * 0.9
            z[2] = 1.0
        return y

    @program(True)
    def updates_an_own_array(x):
        y = x.copy()
        for i in range(10):
            y += i
            y *= 0.9
        return y

    @program(None)
    def keeps_the_last_but_one(x):
        y, older = x * 1, x * 2
        for i in range(10):
            older = y
            y = y * 0.9 + i
        return y - older

    @program(None)
    def writes_the_last_but_one(x):
        y, older = x * 1, x * 2
        for i in range(10):
            older[3] = i
            older = y
            y = y * 0.9 + older[3]
        return y - older

    @program(None)
    def changes_shape(x):
        y = x
        for i in range(8):
            y = y[1:] * (i + 1)
        return y

    @program(True)
    def starts_from_none(x):
        before, s = None, x[0]
        for i in range(11):
            if before is not None:
                s = s + before * x[i]
            before = x[i] * 2
        return s

    @program(True)
    def skips(x):
        s = x[0]
        for i in range(11):
            if i % 3 == 0:
                continue
            s = s * 0.9 + x[i]
        return s

    @program(True)
    def remainders(x):
        s = x[0]
        for i in range(11):
            s = s * 0.9 + x[3] * (i % 3) + (i // 2) ** 2 - i / 3
        return s

    @program(None)
    def indexed_by_a_remainder(x):
        s = x[0]
        for i in range(11):
            s = s * 0.9 + x[i % 3]
        return s

    @program(None)
    def indexed_by_an_array(x):
        order = np.array([3, 1, 4, 1, 5, 9, 2, 6])
        s = x[0]
        for i in range(8):
            s = s * 0.9 + x[order[i]]
        return s

    @program(None)
    def shifts_by_the_index(x):
        s = x
        for i in range(8):
            s = 0.5 * s + np.roll(x, i)
        return s

    @program(None)
    def shapes_by_the_index(x):
        s = 0.0
        for i in range(1, 9):
            s = s + np.sum(np.ones(i)) * x[0] + np.sum(np.arange(i)) * x[1]
        return s

    @program(None)
    def powers_by_the_index(x):
        s = x[0]
        for i in range(8):
            s = s + x[1] ** i + np.sum(x**i)
        return s

    @program(None)
    def sums_along_the_index(x):
        s = x[0]
        for i in range(8):
            s = s + np.sum(np.clip(x, 0.5, i)) + np.minimum(x[i], i) + max(x[2], 0.1)
        return s

    @program(False)
    def converts_the_index(x):
        s = x[0]
        for i in range(8):
            s = s + x[1] * float(i)
        return s

    @program(True, M)
    def solves(m):
        y = m[0]
        for i in range(9):
            y = np.linalg.solve(np.eye(12) * 5.0 + m * 0.1, y + i)
        return y

    @program(False)
    def fills_a_dict(x):
        found = {}
        for i in range(5):
            found[i] = x[i]
        return found[2] + found[4]

    @program(False, np.arange(24.0).reshape(2, 12))
    def integers_too(m):
        n = np.arange(12)
        total = np.zeros(12)
        for i in range(1, 12):
            total[i] = total[i - 1] + n[i] * m[0, i]
        return np.sum(total * m[1])

    @program(True, X.astype(np.float32))
    def single_precision(x):
        for i in range(1, 12):
            x[i] = x[i] * np.float32(0.5) + x[i - 1]
        return x

    def with_long_body(name):
        """A loop whose jumps are too far for one instruction."""
        body = "y = y * 0.9 + np.sin(x[i] * y) * 0.1; " * 40
        space = {"np": np}
        exec(f"def {name}(x):\n y = x\n for i in range(9):\n  {body}\n return y", space)
        program(True)(space[name])

    with_long_body("a_long_body")
