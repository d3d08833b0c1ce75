"""Programs with Python loops in which masks select; added to the others."""

import numpy as np
from python_loop_programs import PROGRAMS as PROGRAMS
from python_loop_programs import M, X, program


class Masks:
    """Selections by masks that differ from iteration to iteration, and from call to call."""

    @program(True)
    def means_of_bins(x):
        values, found = np.sin(x), np.zeros(9)
        for i in range(9):
            inside = np.logical_and(x >= 0.1 * i, x < 0.1 * i + 1.0)
            chosen = values[inside]
            found[i] = chosen.mean()
        return np.sum(found**2)

    @program(True, M)
    def powers_of_positive_distances(m):
        x, total = m[0], 0.0
        for _ in range(9):
            d = x[:, None] - x
            d[d > 0] = d[d > 0] ** -1.5
            x = x + 0.001 * np.sum(np.where(d < 50, d, 0.0), axis=0)
            total = total + np.sum(x * m[1])
        return total

    @program(True)
    def sums_of_logarithms(x):
        total = 0.0
        for i in range(9):
            total = total + np.sum(np.log(x[x > 0.3 + 0.01 * i] - 0.3))
        return total

    @program(True)
    def updates_in_place(x):
        for i in range(9):
            x[x > 0.5] *= 0.9
            x[(x > 0.2) & (x < 0.9)] += 0.01 * i
            x[x > 1.2] = 1.1
        return x

    @program(True, X.astype(np.float32))
    def in_single_precision(x):
        total = x[0] * 0
        for _ in range(9):
            x[x > 0.5] = x[x > 0.5] * np.float32(0.9)
            total += np.mean(x[x > 0.4])
        return total

    @program(True)
    def of_complex_numbers(x):
        waves, total = np.exp(1j * x), 0.0
        for i in range(9):
            total = total + np.abs(np.mean(waves[x > 0.1 * i]))
        return total

    @program(False)
    def of_a_plain_array(x):
        numbers, total = np.arange(12), 0.0
        for i in range(9):
            total = total + np.sum(numbers[x > 0.1 * i]) * np.sum(x)
        return total

    @program(True, M)
    def within_an_inner_loop(m):
        total = 0.0
        for i in range(8):
            for j in range(8):
                row = m[j] * (0.5 + 0.01 * i)
                total = total + np.sum(row[row > 0.3])
        return total

    @program(None)
    def where_all_are_selected(x):
        y = x
        for i in range(9):
            y = y[x > -1.0 * i - 0.5] * 0.9
        return y

    @program(False)
    def reads_how_many(x):
        total = 0.0
        for i in range(9):
            chosen = x[x > 0.1 * i]
            total = total + np.sum(chosen) / chosen.size
        return total

    @program(False)
    def branches_on_how_many(x):
        total = 0.0
        for i in range(9):
            chosen = x[x > 0.1 * i]
            if len(chosen) > 9:
                total = total + np.mean(chosen)
        return total

    @program(False)
    def variances(x):
        total = 0.0
        for i in range(9):
            total = total + np.var(x[x > 0.1 * i])
        return total

    @program(False)
    def first_and_sorted(x):
        total = 0.0
        for i in range(9):
            chosen = x[x > 0.1 * i]
            total = total + chosen[0] + np.sort(chosen)[1]
        return total

    @program(False, M)
    def rows(m):
        total = 0.0
        for i in range(9):
            total = total + np.sum(m[m[i] > 0.6])
        return total

    @program(False)
    def of_two_masks(x):
        total = 0.0
        for i in range(6):
            total = total + np.sum(x[x > 0.2 * i][:3] * x[x < 2.0 - 0.1 * i][:3])
        return total

    @program(False)
    def appended(x):
        found = []
        for i in range(6):
            found.append(x[x > 0.2 * i])  # noqa: PERF401
        return np.concatenate(found)

    @program(None)
    def read_after_the_loop(x):
        total = 0.0
        for i in range(9):
            chosen = x[x > 0.1 * i]
            total = total + np.sum(chosen)
        return total + chosen[0]

    @program(None)
    def selected_by_counts(x):
        total = 0.0
        for i in range(9):
            total = total + np.sum(x[np.arange(12) < 3 + i]) * np.count_nonzero(x > 0.1 * i)
        return total

    @program(None)
    def the_same_in_all_iterations(x):
        total = 0.0
        for i in range(9):
            total = total + np.mean(x[x > 0.8]) * i
        return total

    @program(None)
    def by_a_mask_from_before(x):
        large, y, total = x > 0.8, x, 0.0
        for _ in range(9):
            y = y * 0.9
            chosen = y[large]
            total = total + chosen[0] * chosen.size + np.var(chosen)
        return total

    @program(True)
    def nothing_at_last(x):
        total = 0.0
        for i in range(9):
            total = total + np.sum(np.sqrt(x[x > 0.4 * i]))
            x[x > 0.4 * i] = 0.1
        return total + np.sum(x)
