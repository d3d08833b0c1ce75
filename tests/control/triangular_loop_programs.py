"""Programs with Python loops in which extents and trip counts move; added to the others."""

import numpy as np
import pytest
from python_loop_programs import M, X, program
from ragged_loop_programs import PROGRAMS as PROGRAMS

WHOLE = []  # programs whose traces have as many loops for larger arrays


def whole(*makers):
    """A program on arrays of some extent."""

    def add(f):
        WHOLE.append(pytest.param(f, makers, id=f.__name__))
        return program(True, *[make(12) for make in makers])(f)

    return add


def square(n):
    return np.linspace(-1.0, 1.2, n * n).reshape(n, n) ** 2 + 0.5


def definite(n):
    return square(n) @ square(n).T + n * np.eye(n)


def vector(n):
    return np.linspace(0.3, 1.7, n)


def singles(n):
    return vector(n).astype(np.float32)


class Slices:
    """Slices whose extents move."""

    @program(False)
    def shape_of_what_a_slice_gives(x):
        s = x[0] * 0
        for i in range(12):
            s = s + np.sin(x[i:]).shape[0] * x[i]
        return s

    @program(True)
    def means_of_slices_that_grow(x):
        s = x[0] * 0
        for i in range(12):
            s = s + np.mean(x[: i + 1]) * x[i]
        return s

    @program(True, X)
    def carries_a_slice(x):
        """At first it has as many elements as all of the array that later ones are cut from."""
        v, s = np.exp(x[:11]), x[0] * 0
        for i in range(11, 0, -1):
            s = s + np.sum(v) * x[i]
            v = np.exp(x[:i])
        return s

    @program(False, X)
    def selects_of_slices(x):
        s = x[0] * 0
        for i in range(1, 12):
            v = x[:i]
            s = s + np.sum(v[v > 0.9]) * x[i] + np.mean(np.exp(v[v > 0.2])) + np.sum(v[True])
        return s

    @program(None)
    def iterates_a_slice(x):
        s = x[0] * 0
        for i in range(12):
            s = s + x[i]
            for v in x[:i]:
                s = s * 0.9 + v
        return s

    @program(False)
    def position_that_wraps_around(x):
        s = x[0] * 0
        for i in range(11):
            s = s + x[i] + len(x[i - 1 :])
        return s


class Triangles:
    """Triangular loops."""

    @program(True, X)
    def sums_of_growing_slices(x):
        s = x[0] * 0
        for i in range(12):
            s = s + np.sum(np.exp(x[:i])) * x[i] - np.sum(x[i:] / x[i])
        return s

    @program(True, M, X)
    def writes_growing_slices(m, x):
        for i in range(12):
            m[i, : i + 1] *= x[i]
            m[i, : i + 1] += np.log(x[: i + 1]) * m[0, : i + 1] / x[i]
            m[i:, i] = m[i, i:] = x[i] - m[i:, 0]
        return m

    @program(True, M, X)
    def growing_products(m, x):
        for i in range(11):
            m[i, i + 1 :] = x @ m[:, i + 1 :] / 20
        return m

    @program(True, M, np.array([np.inf, np.nan] + [1.0] * 10))
    def what_is_masked_has_no_effect(m, x):
        s = m[0, 0] * 0
        for i in range(2, 12):
            s = s + m[i, 2 : i + 1] @ x[2 : i + 1] + np.sum(1 / x[2:i])
        return s

    @program(True, M)
    def products_of_all_columns(m):
        """A covariance: the products are those of one matrix product, before the loop."""
        m = m - np.mean(m, axis=0)
        c = np.zeros((12, 12))
        for i in range(12):
            c[i:, i] = c[i, i:] = m[:, i] @ m[:, i:] / 11.0
        return c

    @program(True, M, M[::-1] + 0.3)
    def products_of_rows_on_either_side(a, b):
        s = np.zeros(12)
        for i in range(11, 0, -1):
            s[:i] += a[:i] @ b[i]
            s[i:] -= np.exp(b[i] @ a[:, i:] / 20)
        return s

    @program(True, np.where(np.tri(12, 12, -1) > 0, np.nan, M), M)
    def products_of_what_is_no_number_below_the_diagonal(a, b):
        s = np.zeros(12)
        for i in range(12):
            s[i:] += b[i] @ b[:, i:]
            s[i:] += a[i, i:]
        return s

    @program(True, M, X)
    def updates_that_add_and_take_away(m, x):
        for i in range(1, 12):
            m[i, :i] += x[i] * x[:i]
            m[i, :i] = x[:i] - m[i, :i]
            m[i, i:] -= 0.5
            m[:i, 3] = m[0, :i] + m[:i, 3]
        return m

    @program(None, M, X)
    def broadcasts_a_slice_of_one_element(m, x):
        for i in range(1, 8):
            m[i] = x * np.sum(x[:1]) + np.sum(x[: i + 1] * x[i : i + 1])
        return m

    @program(True, X / 20)
    def levinson_durbin(r):
        y = np.empty_like(r)
        alpha, beta = -r[0], 1.0
        y[0] = -r[0]
        for k in range(1, r.shape[0]):
            beta *= 1.0 - alpha * alpha
            alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
            y[:k] += alpha * np.flip(y[:k])
            y[k] = alpha
        return y

    @program(True, M, X)
    def slices_side_by_side(m, x):
        s = x[0] * 0
        for i in range(1, 11):
            s = s + x[:i] @ m[i, 12 - i :] + np.sum(x[12 - i :] / m[:i, 0][::-1])
            m[i, :i] = x[12 - i :] * m[12 - i :, i]
        return s + np.sum(m)

    @program(None, M, X)
    def parts_of_growing_slices(m, x):
        s = x[0] * 0
        for i in range(1, 11):
            s = s + x[:i][0] + x[:i][-1] + np.sum(m[:, :i][0]) + np.sum(x[:i][:2])
        return s

    @program(None, M, M.T + 0.2)
    def lines_of_two_groups_of_writes(a, b):
        for i in range(6):
            for j in range(i + 1, 12):
                a[j:, i] = 0.2 * b[j:, j]
                a[:j, 1] = 0.2 * a[i, :j]
        return a

    @program(None, M)
    def a_line_with_a_place_of_another_group(a):
        for i in range(12):
            a[i, 7] = a[i, 7] * 0.5
            a[i, 0:3] = a[i, 0:3] * 2 + a[i, 1]
            a[i, 2] = a[i, 2] * 0.3
            a[i, 5] = a[i, 5] * 0.5
        return a

    @program(True, M)
    def lines_from_the_second_iteration_on(a):
        for j in range(1, 11):
            a[j, j:] += 0.2 * a[j, j:]
        return a


SPD = M @ M.T + 12 * np.eye(12)


class Squares:
    """Slices that grow along two axes."""

    @whole(definite, vector)
    def gaussian_elimination(a, b):
        n = len(b)
        for k in range(n - 1):
            f = a[k + 1 :, k] / a[k, k]
            a[k + 1 :, k:] -= f[:, None] * a[k, k:]
            b[k + 1 :] -= f * b[k]
        x = np.zeros(n)
        for k in range(n - 1, -1, -1):
            x[k] = (b[k] - a[k, k + 1 :] @ x[k + 1 :]) / a[k, k]
        return x

    @whole(definite)
    def lu_in_place(a):
        for k in range(len(a) - 1):
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
        return a

    @whole(definite)
    def lu_with_new_axes_in_subscripts(a):
        for k in range(len(a) - 1):
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, None, k + 1 :]
        return a

    @whole(definite)
    def lu_by_products_of_lines(a):
        for k in range(len(a) - 1):
            a[k + 1 :, k] = a[k + 1 :, k] / a[k, k]
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] @ a[k : k + 1, k + 1 :]
        return a

    @whole(definite)
    def cholesky_that_looks_right(a):
        factor = np.zeros_like(a)
        for k in range(len(a)):
            factor[k, k] = np.sqrt(a[k, k])
            factor[k + 1 :, k] = a[k + 1 :, k] / factor[k, k]
            column = factor[k + 1 :, k]
            a[k + 1 :, k + 1 :] -= column[:, None] * column[None, :]
        return factor

    @whole(definite)
    def modified_gram_schmidt(a):
        q = np.zeros_like(a)
        for j in range(len(a)):
            q[:, j] = a[:, j] / np.linalg.norm(a[:, j])
            a[:, j + 1 :] -= np.outer(q[:, j], q[:, j] @ a[:, j + 1 :])
        return q

    @whole(definite)
    def reflections(a):
        for k in range(len(a) - 1):
            v = a[k:, k].copy()
            v[0] += np.sign(v[0]) * np.linalg.norm(v)
            v /= np.linalg.norm(v)
            a[k:, k:] -= 2 * np.outer(v, v @ a[k:, k:])
        return a

    @whole(definite)
    def reflections_by_unit_vectors(a):
        for k in range(len(a) - 1):
            x = a[k:, k]
            e = np.zeros_like(x)
            e[0] = np.copysign(np.linalg.norm(x), x[0])
            v = (x + e) / np.linalg.norm(x + e) * np.ones_like(x)
            a[k:, k:] -= 2.0 * np.outer(v, v @ a[k:, k:])
        return a

    @program(None, M, X)
    def zeros_of_other_forms(a, x):
        s = 0.0
        for k in range(1, 11):
            z, w = np.zeros_like(a[:k, k:]), np.ones_like(x[:k], shape=4)
            w[1:] += x[k]
            z[:, 0] = x[:k]
            s = s + np.sum(w) + np.sum(z) * np.sum(np.ones_like(a.T[:k, :k]) * x[:k])
            s = s + np.sum(np.zeros_like(x[:k], dtype=np.float32) + x[k : k + 1])
        return s

    @whole(square, vector)
    def products_of_squares(a, x):
        y = np.zeros(len(x))
        for k in range(1, len(x)):
            y[k] = x[:k] @ a[:k, :k] @ x[:k] / k
            y[k:] += a[k:, k:].T @ x[k:] - np.transpose(a[:k, k:]) @ x[:k]
        return y

    @program(True, np.triu(M), np.where(np.tri(12, 12, -1) > 0, np.nan, M))
    def what_is_no_number_outside_of_squares(a, b):
        s = np.zeros(12)
        for k in range(12):
            s[k:] += np.max(b[k, k:]) + b[k, k:][::-1] + np.linalg.norm(b[k, k:])
            a[k, k:] -= np.outer(b[: k + 1, k], b[k, k:])[0]
        return a, s

    @program(None, M)
    def squares_of_other_extents(a):
        for k in range(1, 6):
            a[k:, k:] -= 0.1 * np.outer(a[k:, 0], a[0, : 12 - k])
            a[:k, :k] += 0.1 * a[k : 2 * k, 12 - k :]
            a[: 2 * k, :k] += 0.1 * np.outer(a[k, 12 - 2 * k :], a[:k, k])
        return a


class Views:
    """Views of slices that grow."""

    @whole(square, vector)
    def pairs_of_rows(a, x):
        e = a[0, 0] * 0
        for i in range(len(a) - 1):
            d = a[i + 1 :, :3] - a[i, :3]
            r = np.sqrt(np.sum(d * d, axis=1) + 0.1)
            e = e + np.sum(x[i + 1 :] * d[:, 0] / r)
            x[i + 1 :] += np.sum(d / (r**3)[:, None], axis=1)
        return e

    @whole(square, vector)
    def writes_into_views(a, x):
        for i in range(len(x) - 1):
            rows = a[i + 1 :]
            rows[:, 0] += rows[:, 1] * x[i + 1 :]
            rows[:, 2:4] = rows[:, 4:6] * 0.5
            a[i:][:, ::-1][::-1] *= x * 0.9
            a[:, i:][3] = a[:, i:][..., 2, ::-1] - x[i:]
        return a

    @whole(square, vector)
    def positions_from_either_end(a, x):
        y = np.zeros(len(x))
        for i in range(len(x) - 1):
            v = a[i, i:] * x[i:]
            y[i] = v[0] * v[-1] + a[i:][1, 2]
            y[i + 1 :] += v[1:] - v[:-1]
            v[:-1] += x[i + 1 :]
            v[-1] *= 0.5
            y[i:] -= v
        return y

    @whole(square, vector)
    def lines_of_what_grows(a, x):
        y = np.zeros(len(x))
        for i in range(len(x) - 1):
            y[i + 1 :] += a[i + 1 :][:, i] * a[:, i + 1 :][i, ::-1]
        return y

    @program(None, M, X)
    def positions_that_some_iterations_have_not(a, x):
        s = x[0] * 0
        for i in range(12):
            s = s + np.sum(x[:i][:4]) + np.sum(x[i:][-3:]) + np.sum(x[i:][::2])
            if i > 2:
                s = s + x[:i][2] * a[:i, 0][-2]
        return s

    @program(None, M, X)
    def views_in_inner_loops(a, x):
        for i in range(1, 8):
            v, total = a[i, i:], np.sum(a[i:] * x, axis=0)
            for j in range(4):
                x[j] = x[j] * 0.9 + v[j] * total[j] + v[1:][j] + np.sum(a[i:][:, j])
        return x


class Folds:
    """Reductions of slices that grow."""

    @whole(square, vector)
    def extremes(a, x):
        y = np.zeros(len(x))
        for i in range(len(x)):
            y[i] = np.max(x[: i + 1]) * np.min(a[i, i:]) + np.amax(-a[i:, : i + 1])
            y[i:] -= np.max(a[i:] * x, axis=1) + a[: i + 1, i:].min(axis=0)
        return y

    @program(True, np.minimum(M, 1.0), np.array([1.0, 0.5, -np.inf] * 4))
    def ties(m, x):
        y = np.zeros(12)
        for i in range(2, 12):
            y[i] = np.max(m[i, i:]) + np.max(np.exp(x[:i])) - np.min(np.maximum(m[:i, :i], 0.7))
        return y

    @program(True, np.full(12, -np.inf), np.full(12, 2, np.int32), X > 0.9)
    def extremes_that_are_those_of_nothing(x, k, b):
        s = 0.0
        for i in range(11):
            s = s + np.exp(np.max(x[i:])) + np.max(k[i:]) * np.min(k[: i + 1]) + np.max(b[i:])
        return s

    @whole(square, vector)
    def products_and_predicates(a, x):
        y = np.zeros(len(x))
        for i in range(len(x)):
            y[i] = np.prod(x[:i]) + np.where(np.any(x[:i] > 1.5), 0.5, x[i])
            y[i:] += np.prod(a[i:, :3], axis=1) * np.all(a[:i] > 0.4)
            y[:i] += np.where(x[:i] > 1.0, x[:i], 0.3) * np.inner(x[:i], a[i, :i])
        return y

    @program(None, X)
    def greatest_of_possibly_nothing(x):
        s = x[0]
        for i in range(12):
            s = s * 0.9 + np.max(x[:i], initial=0.5) + np.max(x[i:][x[i:] > 3], initial=0.1)
        return s

    @program(None, M, X)
    def means_where_and_places_where(m, x):
        s = x[0]
        for i in range(1, 12):
            s = (
                s * 0.9
                + np.mean(x[:i], where=x[:i] > 0.2)
                + np.mean(x[:i], where=np.True_)
                + len(np.where(x[:i] > 1.0)[0])
            )
            s = s + np.linalg.norm(m[:i], axis=1)[0] + np.linalg.norm(m[:i, :i], 1)
        return s

    @program(False, X)
    def spread_of_slices(x):
        s = x[0]
        for i in range(1, 12):
            s = s * 0.9 + np.std(x[:i]) + np.var(x[i:]) + np.median(x[:i])
        return s


class TripCounts:
    """Loops whose trip count moves with an outer one."""

    @program(True, SPD)
    def cholesky(a):
        a[0, 0] = np.sqrt(a[0, 0])
        for i in range(1, a.shape[0]):
            for j in range(i):
                a[i, j] -= np.dot(a[i, :j], a[j, :j])
                a[i, j] /= a[j, j]
            a[i, i] -= np.dot(a[i, :i], a[i, :i])
            a[i, i] = np.sqrt(a[i, i])
        return a

    @program(True, SPD, X)
    def lu_with_solves(a, b):
        x, y = np.zeros_like(b), np.zeros_like(b)
        for i in range(a.shape[0]):
            for j in range(i):
                a[i, j] -= a[i, :j] @ a[:j, j]
                a[i, j] /= a[j, j]
            for j in range(i, a.shape[0]):
                a[i, j] -= a[i, :i] @ a[:i, j]
        for i in range(a.shape[0]):
            y[i] = b[i] - a[i, :i] @ y[:i]
        for i in range(a.shape[0] - 1, -1, -1):
            x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
        return x, y

    @program(True, M, M[:, ::-1] + 0.1)
    def rank_update_of_a_triangle(c, a):
        for i in range(a.shape[0]):
            c[i, : i + 1] *= 1.2
            for k in range(a.shape[1]):
                c[i, : i + 1] += 1.5 * a[i, k] * a[: i + 1, k]
        return c

    @program(True, M, M[::-1] + 0.1, M.T - 0.3)
    def symmetric_product(c, a, b):
        temp = np.empty(c.shape[1])
        c *= 1.2
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[:i, j] += 1.5 * b[i, j] * a[i, :i]
                temp[j] = b[:i, j] @ a[i, :i]
            c[i, :] += 1.5 * b[i, :] * a[i, i] + 1.5 * temp
        return c

    @program(None, M, X)
    def counts_the_iterations_of_a_triangle(m, x):
        k = 0
        for i in range(12):
            for j in range(i):
                k += 1
                x[j] = x[j] + m[i, j] * k
        return x * k

    @program(None, M)
    def backwards_over_a_triangle(m):
        for i in range(11, -1, -1):
            for j in range(i, 0, -1):
                m[i, j] = m[i, j] - 0.1 * m[i, j - 1] * m[j, i]
        return m

    @program(None, M, X)
    def reads_the_index_after_a_loop_of_moving_trip_count(m, x):
        j = 3
        for i in range(12):
            for j in range(i):
                x[j] = x[j] * 0.9 + m[i, j]
            x[j] = x[j] * 0.5
        return x

    @program(None, M, X)
    def an_outer_triple(m, x):
        for i in range(12):
            for j in range(i):
                for k in range(j, i):
                    m[i, j] = m[i, j] + 0.1 * m[i, k] * x[k]
        return m

    @program(True, M, X)
    def writes_what_loops_of_moving_trip_count_stack(m, x):
        y = np.zeros((12, 12))
        for i in range(12):
            for j in range(i):
                y[i, j] = np.sin(m[j, i]) * x[j]
        return y


class PlainStarts:
    """Sums that start at Python's numbers, which they still are where a loop has no iterations."""

    @whole(definite)
    def cholesky_by_hand(a):
        n = len(a)
        factor = np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1):
                s = 0.0
                for k in range(j):
                    s += factor[i, k] * factor[j, k]
                if i == j:
                    factor[i, i] = np.sqrt(a[i, i] - s)
                else:
                    factor[i, j] = (a[i, j] - s) / factor[j, j]
        return factor

    @whole(definite)
    def cholesky_by_columns(a):
        n = len(a)
        factor = np.zeros((n, n))
        for j in range(n):
            s = 0.0
            for k in range(j):
                s += factor[j, k] ** 2
            factor[j, j] = np.sqrt(a[j, j] - s)
            for i in range(j + 1, n):
                s = 0
                for k in range(j):
                    s += factor[i, k] * factor[j, k]
                factor[i, j] = (a[i, j] - s) / factor[j, j]
        return factor

    @whole(definite, vector)
    def substitutions_by_hand(a, b):
        n = len(b)
        x, y = np.zeros(n), np.zeros(n)
        for i in range(n):
            s = 0.0
            for j in range(i):
                s += a[i, j] * y[j]
            y[i] = (b[i] - s) / a[i, i]
        for i in range(n - 1, -1, -1):
            s = 0.0
            for j in range(i + 1, n):
                s += a[j, i] * x[j]
            x[i] = (y[i] - s) / a[i, i]
        return x, y

    @whole(definite)
    def lu_by_hand(a):
        n = len(a)
        lower, upper = np.zeros((n, n)), np.zeros((n, n))
        for i in range(n):
            for k in range(i, n):
                s = 0.0
                for j in range(i):
                    s += lower[i, j] * upper[j, k]
                upper[i, k] = a[i, k] - s
            for k in range(i, n):
                if i == k:
                    lower[i, i] = 1.0
                else:
                    s = 0.0
                    for j in range(i):
                        s += lower[k, j] * upper[j, i]
                    lower[k, i] = (a[k, i] - s) / upper[i, i]
        return lower, upper

    @whole(definite)
    def elimination(a):
        n = len(a)
        for k in range(n):
            for i in range(k + 1, n):
                factor = a[i, k] / a[k, k]
                for j in range(k, n):
                    a[i, j] = a[i, j] - factor * a[k, j]
        return a

    @whole(definite)
    def gram_schmidt_by_hand(a):
        n = len(a)
        q = np.zeros((n, n))
        for j in range(n):
            v = a[:, j].copy()
            for i in range(j):
                r = 0.0
                for k in range(n):
                    r += q[k, i] * a[k, j]
                v = v - r * q[:, i]
            s = 0.0
            for k in range(n):
                s += v[k] * v[k]
            q[:, j] = v / np.sqrt(s)
        return q

    @whole(square)
    def pairs_of_points(x):
        e = 0
        for i in range(len(x)):
            for j in range(i + 1, len(x)):
                d = x[i, :3] - x[j, :3]
                e += 1.0 / (d @ d + 0.1)
        return e

    @whole(square)
    def pairs_within_a_cutoff(x):
        e = 0.0
        for i in range(len(x)):
            for j in range(i):
                d = x[i, ::4] - x[j, ::4]
                squared = d @ d
                if squared < 0.4:
                    e += np.exp(-squared)
        return e

    @whole(singles, singles)
    def sums_of_single_precision(x, y):
        z = np.zeros(len(x), np.float32)
        for i in range(len(x)):
            s = 0.1
            for j in range(i):
                s += x[j] * x[i]
            z[i] = y[i] * s
        return z

    @program(None, X.astype(np.float32), X)
    def types_that_tell_of_iterations(x, y):
        found = []
        for i in range(12):
            s = 0.1
            for j in range(i):
                s += y[j] * y[i]
            found += [s, s * x[i], s * x, isinstance(s, np.floating), 2 * s]
        return tuple(found)

    @program(None, X)
    def types_that_tell_of_the_last_iterations(x):
        found = []
        for i in range(12):
            s = 0
            for j in range(i + 2, 12):
                s += x[j]
            found.append(s)
        return tuple(found)

    @program(None, X)
    def single_precision_that_tells_of_iterations(x):
        y = np.zeros(12)
        for i in range(12):
            s = 0.1
            for j in range(i + 1, 12):
                s = s + np.float32(0.3) * j
            y[i] = s * np.float32(1.1) * x[i]
        return y

    @program(None, X)
    def numbers_that_most_iterations_leave_alone(x):
        found = []
        for i in range(12):
            s = 0.0
            for j in range(i):
                if x[j] < 0.3 * x[i]:
                    s += x[j]
            found.append(s)
        return tuple(found)


class FirstAndLast:
    """Inner loops of which the first iteration, or the last one, branches otherwise."""

    @whole(square, vector)
    def ends_of_rows(a, x):
        y = np.zeros((len(x), len(x)))
        for i in range(len(x)):
            for j in range(i + 1):
                if j == 0:
                    y[i, j] = x[i]
                elif j != i:
                    y[i, j] = a[i, j] * y[i, j - 1]
                else:
                    y[i, i] = np.sin(x[i] * y[i, i - 1])
        return y

    @whole(square)
    def diagonal_first(a):
        for i in range(len(a)):
            for j in range(i, len(a)):
                if i == j:
                    a[i, j] = np.sqrt(a[i, j])
                else:
                    a[i, j] = a[i, j] / a[i, i] - a[0, j]
        return a

    @program(None, M, X)
    def last_iteration_of_possibly_empty_loops(a, x):
        s = x[0]
        for i in range(9):
            for j in range(i + 1, 9):
                s = s * 0.5 if j == 8 else s + a[i, j] * x[j]
            a[i, i] = s
        return a

    @program(None, M, X)
    def an_iteration_in_between(a, x):
        for i in range(12):
            for j in range(i):
                if 2 * j == i:
                    x[j] = x[j] * 0.5
                elif j + 1 == i:
                    x[j] = x[j] + a[i, j] * 0.1
                else:
                    x[j] = x[j] - a[j, i] * 0.1
        return x


class Bounds:
    """Ranges from and to numbers of outer loops."""

    @program(None, X)
    def many_numbers_from_an_outer_one(x):
        s = x[0]
        for i in range(1, 9):
            u = 0.0
            for j in range(i, i + 6):
                u = u * 0.9 + j
            s = s + u * x[1]
        return s

    @program(None, X)
    def triangles_from_numbers_of_outer_ones(x):
        s = x[0] * 0
        for i in range(1, 9):
            for j in range(i, i + 4):
                u = 1
                for _ in range(j, 12):
                    u += x[2]
                s = s + u * x[j]
        return s

    @program(None, X)
    def appends_what_plain_numbers_give(x):
        s, found = 0.0, []
        for i in range(12):
            for j in range(11, i, -1):
                s += 0.1 * j
            found.append(np.sqrt(s * s + 1))
        return s * x, *found

    @program(None, X)
    def rows_of_possibly_empty_loops(x):
        y = np.zeros(12)
        for i in range(7, -1, -1):
            for j in range(i - 1, -1, -1):
                u = x[0] * 0
                for m in range(j + 1, 9):
                    u += x[m] * x[i]
                y[j] = y[j] * 0.5 + u
        return y
