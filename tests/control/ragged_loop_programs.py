"""Programs with Python loops over slices between numbers of arrays; added to the others."""

import numpy as np
from masked_loop_programs import PROGRAMS as PROGRAMS
from python_loop_programs import M, X, program

import tracker

ENDS = np.array([0, 2, 2, 3, 5, 6, 8, 9, 11, 12])
FILLED = np.array([0, 2, 3, 5, 6, 8, 9, 11, 12], np.uint32)
COLUMNS = np.array([3, 1, 0, 11, 7, 7, 2, 5, 9, 10, 4, 0])


class Ragged:
    """Slices whose extents differ as the numbers of an array do."""

    @program(True)
    def rows_of_a_sparse_matrix(x):
        y = np.empty(9)
        for i in range(9):
            columns = COLUMNS[ENDS[i] : ENDS[i + 1]]
            y[i] = x[ENDS[i] : ENDS[i + 1]] @ np.exp(x)[columns]
        return np.sin(y)

    @program(True, X, M)
    def likelihood_of_groups(x, m):
        total = 0.0
        for i in range(9):
            low, high = ENDS[i], ENDS[i + 1]
            rest = x[low:high] - m[low:high] @ x - m[i, 0]
            total = total - 0.5 * np.sum(rest**2) + np.sum(np.log1p(np.exp(-rest)))
        return total

    @program(True)
    def means_of_groups(x):
        found = np.zeros(8)
        for i in range(8):
            group = x[FILLED[i] : FILLED[i + 1]]
            found[i] = np.mean(group * x[i]) + group.mean()
        return found

    @program(True, M)
    def means_of_rows_of_matrices(m):
        found = np.zeros((8, 12))
        for i in range(8):
            found[i] = m[FILLED[i] : FILLED[i + 1]].mean(axis=0)
        return found

    @program(True, M)
    def parts_along_other_axes(m):
        total = 0.0
        for i in range(9):
            total += np.sum(m[ENDS[i] : ENDS[i + 1], 3] * m[i, i])
            total += np.sum(m[ENDS[i] : ENDS[i + 1], 2:5] ** 2)
        return total

    @program(True)
    def bounds_are_computed(x):
        total = 0.0
        for i in range(8):
            total += np.sum(x[FILLED[i] + 1 : FILLED[i + 1]] * x[i])
            total += np.sum(x[COLUMNS[i] // 3 : COLUMNS[i] // 2 + 4])
        return total

    @program(True)
    def open_slices(x):
        total = 0.0
        for i in range(9):
            total = total * 0.9 + np.sum(x[: ENDS[i]] ** 2) - np.sum(x[ENDS[i] :] * x[i])
        return total

    @program(True, X.astype(np.float32))
    def in_single_precision(x):
        y = np.zeros(9, np.float32)
        for i in range(9):
            y[i] = np.sum(np.sqrt(x[ENDS[i] : ENDS[i + 1]])[::-1])
        return y

    @program(True)
    def of_complex_numbers(x):
        waves, y = np.exp(1j * x), np.zeros(9, complex)
        for i in range(9):
            y[i] = np.sum(waves[ENDS[i] : ENDS[i + 1]] * x[i])
        return np.abs(y)

    @program(True)
    def the_same_bounds_in_all_iterations(x):
        total = 0.0
        for i in range(9):
            total = total * 0.5 + np.sum(x[ENDS[2] : ENDS[6]] * x[i])
        return total

    @program(False)
    def written_parts(x):
        y = np.zeros(12)
        for i in range(9):
            y[ENDS[i] : ENDS[i + 1]] = x[ENDS[i] : ENDS[i + 1]] * x[i]
        return y

    @program(False)
    def numbers_written_into_new_arrays(x):
        total = 0.0
        for i in range(9):
            y = np.zeros(12)
            y[ENDS[i] : ENDS[i + 1]] = x[i]
            total = total + np.sum(y * x)
        return total

    @program(False)
    def parts_are_read_and_written(x):
        total = 0.0
        for i in range(9):
            low, high, y = ENDS[i], ENDS[i + 1], np.ones(12)
            y[low:high] = 0.5
            total = total + np.sum(x[low:high] * x[i]) + np.sum(y * x)
        return total

    @program(False)
    def views_are_written(x):
        total = 0.0
        for i in range(9):
            y = x * x[i]
            view = y[ENDS[i] : ENDS[i + 1]]
            view[...] = 2.0
            total = total + np.sum(y * x)
        return total

    @program(None)
    def slopes_in_iterations(x):
        total = np.zeros(12)
        for i in range(9):
            low, high = ENDS[i], ENDS[i + 1]
            total = total + tracker.gradient(lambda x: np.sum(x[low:high]) * x[3], x)[0]  # noqa: B023
        return total**2

    @program(False)
    def the_array_is_written(x):
        y = x * 1.0
        for i in range(9):
            y[i] = np.sum(y[ENDS[i] : ENDS[i + 1]]) + x[i]
        return y

    @program(False)
    def slices_are_clipped(x):
        total = 0.0
        for i in range(9):
            total += np.sum(x[ENDS[i] : ENDS[i + 1] + 2] * x[i])
        return total

    @program(False)
    def bounds_are_out_of_order(x):
        total = 0.0
        for i in range(9):
            total += np.sum(x[COLUMNS[i] : COLUMNS[i + 1]] * x[i])
        return total

    @program(False)
    def lengths_are_read(x):
        total = 0.0
        for i in range(9):
            group = x[ENDS[i] : ENDS[i + 1]]
            total += np.sum(group * x[i]) / (1 + len(group))
        return total

    @program(False)
    def bounds_are_read(x):
        total = 0.0
        for i in range(9):
            low, high = ENDS[i], ENDS[i + 1]
            total += np.sum(x[low:high] * x[i]) * (int(high) % 3)
        return total

    @program(False)
    def greatest_numbers_of_groups(x):
        total = 0.0
        for i in range(8):
            total += np.max(x[FILLED[i] : FILLED[i + 1]] * x[i])
        return total

    @program(None)
    def branches_on_sums_of_groups(x):
        total = 0.0
        for i in range(9):
            part = np.sum(x[ENDS[i] : ENDS[i + 1]])
            total = total + part if part > 1.0 else total - x[i]
        return total

    @program(None)
    def in_a_loop(x):
        y = x * 1.0
        for _ in range(6):
            sums = np.zeros(9)
            for i in range(9):
                sums[i] = np.sum(y[ENDS[i] : ENDS[i + 1]] ** 2)
            y = y - 0.01 * y * np.sum(sums)
        return y
