"""Programs with inner loops whose iterations are independent, or nearly so; added to the others."""

import numpy as np
from python_loop_programs import M, X, program
from sliced_loop_programs import PROGRAMS as PROGRAMS
from triangular_loop_programs import definite, square, vector, whole

CUBE = np.cos(np.arange(12.0**3)).reshape(12, 12, 12)
SINGLE = X.astype(np.float32)


class Lines:
    """Inner loops whose iterations read and write a line each."""

    @whole(definite)
    def elimination_by_rows(a):
        n = len(a)
        for k in range(n):
            for i in range(k + 1, n):
                a[i, k] /= a[k, k]
                a[i, k + 1 :] -= a[i, k] * a[k, k + 1 :]
        return a

    @whole(definite)
    def elimination_from_below(a):
        n = len(a)
        for k in range(n):
            for i in range(n - 1, k, -1):
                f = a[i, k] / a[k, k]
                a[i] = a[i] - f * a[k]
        return a

    @whole(definite)
    def gram_schmidt_by_columns(a):
        n = len(a)
        q, r = np.zeros((n, n)), np.zeros((n, n))
        for k in range(n):
            r[k, k] = np.sqrt(a[:, k] @ a[:, k])
            q[:, k] = a[:, k] / r[k, k]
            for j in range(k + 1, n):
                r[k, j] = q[:, k] @ a[:, j]
                a[:, j] -= q[:, k] * r[k, j]
        return q, r

    @whole(definite)
    def factors_by_scalars(a):
        n = len(a)
        for k in range(n):
            for i in range(k + 1, n):
                a[i, k] = a[i, k] / a[k, k]
                for j in range(k + 1, n):
                    a[i, j] -= a[i, k] * a[k, j]
        return a

    @whole(definite, vector)
    def substitution_in_place(a, b):
        n = len(b)
        for i in range(n):
            for j in range(i):
                b[i] -= a[i, j] * b[j]
            b[i] = b[i] / a[i, i]
        return b

    @whole(definite, vector)
    def substitution_by_columns(a, b):
        n = len(b)
        for j in range(n):
            b[j] /= a[j, j]
            for i in range(j + 1, n):
                b[i] -= a[i, j] * b[j]
        return b

    @whole(square)
    def forces_between_pairs(x):
        f = np.zeros((len(x), 3))
        for i in range(len(x)):
            for j in range(i + 1, len(x)):
                d = x[i, :3] - x[j, :3]
                g = d / (np.sum(d**2) + 0.1)
                f[i] += g
                f[j] -= g
        return f

    @whole(square, vector)
    def products_with_matrices(a, x):
        y = np.zeros_like(a)
        for i in range(len(x)):
            for j in range(i):
                y[j] = a @ a[j] + x * (a[i] @ a[j])
                y[j, 0] = np.max(a[j] * x) + np.sum(y[j, 1:3])
        return y

    @whole(vector)
    def two_sums(x):
        s, t = 0.0, x[0]
        for i in range(len(x)):
            for j in range(i):
                s += np.log(x[i]) * x[j]
                t = t - np.exp(x[j] - x[i]) + x[j] ** 2
        return s, t

    @program(None, M)
    def one_array_in_all_lines(m):
        c = m * 0.5
        for i in range(11, -1, -1):
            for j in range(i):
                c[i:, j] = m[i:, i] * 0.1
        return c

    @program(None, M)
    def lines_that_overlap(m):
        for k in range(12):
            for i in range(k + 1, 12):
                m[i] = m[i - 1] * 0.5 + m[i] * 0.1
        return m

    @program(None, M)
    def lines_that_others_read(m):
        for k in range(12):
            for i in range(k, 11):
                m[i] = m[i + 1] * 0.5 + m[i, k] * 0.1
        return m

    @program(None, M)
    def a_line_and_its_transpose(m):
        for k in range(12):
            for i in range(k + 1, 12):
                m[i, k] = m[k, i] * 0.5
                m[k, i] = m[i, k] + m[k, k]
        return m

    @program(None, M)
    def diagonals(m):
        for k in range(12):
            for i in range(k, 12):
                m[i, i] = m[i, k] * 0.5 + m[i, i]
        return m

    @program(None, M, X)
    def sums_that_are_read(m, x):
        s = x[0]
        for i in range(12):
            for j in range(i):
                s = s + x[j]
                m[i, j] = s
        return m

    @program(None, X)
    def a_part_that_is_added_to_and_replaced(x):
        y = np.ones(12)
        for i in range(12):
            for j in range(i):
                before = y[i]
                y[i] = before + x[j]
                y[i] = before * 0.5 + x[i]
        return y

    @program(None, X)
    def a_part_that_is_added_to_twice(x):
        y = np.ones(12)
        for i in range(12):
            for j in range(i):
                y[i] += x[j]
                y[i] -= x[j] ** 2 * 0.3
        return y

    @whole(vector)
    def numbers_of_iterations(x):
        s, n = 0.0, len(x)
        c = np.zeros((n, n))
        for i in range(n):
            for j in range(i):
                s += 0.1 * j * x[j] + np.cos(2 * np.pi * i * j / n) - x[i] ** (i - j)
                c[i, j] = x[j] * np.exp(-0.5 * (i - j) ** 2)
                c[j, i] = c[i, j] / (i + j + 1)
            for j in range(n - 1, i, -1):
                s -= np.sin(j) * x[j] * (j / 7 - 0.5 * i) + (j + 1) ** x[i] * 1e-9
        return s, c

    @program(None, X, SINGLE)
    def numbers_that_are_computed_otherwise(x, y):
        s, k, n = 0.0, 0, np.zeros(12, np.int8)
        for i in range(12):
            for j in range(i):
                s += x[j] * (j // 2) + x[j] * (j % 3) - x[j] * 0.5**j
                s += 1e-40 * x[j] * (j * 10**12 * j * 10**8 * j)
                y[j] += y[i] * j
                n[j] = n[j] + j
            for j in range(i, 12):
                k += j
                s += x[0] * k / (1 + j)
        return s + k, n * x

    @program(None, X)
    def last_of_all(x):
        y, last = np.ones(12), x[0]
        for i in range(12):
            for j in range(i):
                last = x[j] * x[i]
            y[i] = last
        return y

    @whole(square, vector)
    def products_of_positions(a, x):
        for i in range(len(x)):
            for j in range(i):
                a[j, :i] = x[j] * x[:i] + a[j, 0]
        return a

    @program(True, M, CUBE)
    def products_of_lines_and_matrices(m, a):
        y, z = np.zeros(12), np.zeros(12)
        for i in range(12):
            for j in range(i):
                y += np.sum(m[j] @ a[j]) + a[j] @ m[j]
            for j in range(i, 12):
                z -= np.sum(a[j] @ m[j]) + np.sum(m[j] @ a, axis=0) + np.sum(a @ m[j], axis=1)
        return y, z

    @program(True, SINGLE, X)
    def sums_of_less_precise_numbers(x, y):
        s, t, n = y[0], y.copy(), np.int64(3)
        for i in range(12):
            for j in range(i):
                s += x[j]
                t[i] -= x[j] * x[i]
                n = n + (x[j] > x[i])
        return s * n, t

    @program(None, M, X)
    def ones_in_the_form_of_lines(m, x):
        y = np.zeros((12, 12))
        for i in range(12):
            for j in range(i):
                y[j] += np.ones_like(m[j]) * x[j] + np.sum(np.zeros_like(m[j, :3]) + 0.1)
                y[i, j] = np.sum(np.ones_like(m[j])) * np.ones_like(x[j])
        return y

    @whole(square, vector)
    def both_halves_at_once(a, x):
        n = len(x)
        c = np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1):
                c[i, j] = np.exp(-np.abs(x[i] - x[j])) + a[i] @ a[j]
                c[j, i] = c[i, j]
            for j in range(n - 1, i - 1, -1):
                a[i, j] += a[j, i] * x[j]
                a[j, i] -= 0.5 * a[i, j]
        return c, a

    @program(None, M, X)
    def another_half_at_once(m, x):
        for i in range(11):
            for j in range(i, 11):
                m[i, j] = m[j + 1, i] * 0.5 + m[i, j]
                m[j + 1, i] *= x[j]
            for j in range(i, 12):
                m[i, j] = m[11 - j, i] * 0.5 + m[i, j]
                m[11 - j, i] *= x[j]
        return m

    @program(None, M, X)
    def a_line_and_parts_of_others(m, x):
        for i in range(11):
            for j in range(i, 11):
                m[i, j] = np.sum(m[j, :i]) + x[j]
                m[j, i : i + 2] *= 0.5
        return m
