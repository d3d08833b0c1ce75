"""Programs with Python loops that append to lists (`test_python_loops.py`)."""

import numpy as np
from python_loop_programs import program
from triangular_loop_programs import PROGRAMS as PROGRAMS  # all of them


def _noted(states, y):
    states.append(y)
    return y * 0.9


class Appending:
    @program(True)
    def appended_numbers(x):
        states, s = [], x[0]
        for i in range(12):
            s = s * 0.9 + x[i]
            states.append(s)
        return np.array(states), s, states[-1] * states[3]

    @program(True)
    def last_one_has_a_name(x):
        states, y = [x], x * 1.0
        for _ in range(10):
            y = np.sin(y) * x
            states.append(y)
        y += 1.0
        return np.array(states), states[-1], states[5]

    @program(True)
    def first_one_has_a_name(x):
        states, y = [], x * 1.0
        start = y
        for _ in range(10):
            states.append(y)
            y = np.sin(y) * x
        start[0] = 7.0
        return np.array(states), states[0]

    @program(True)
    def written_before_it_is_appended(x):
        states, y = [], x * 1.0
        for _ in range(10):
            y = np.sin(y)
            y[1:] *= 0.5
            states.append(y)
        return np.stack(states, axis=1)

    @program(False)
    def written_after_it_was_appended(x):
        states, y = [], x * 1.0
        for _ in range(10):
            y *= 0.5
            z = y * 1.0
            states.append(z)
            y = z
        return np.array(states), y

    @program(False)
    def one_array_again_and_again(x):
        states, y = [], x * 1.0
        for i in range(10):
            y[i] = i
            states.append(y)
        return np.array(states)

    @program(True)
    def copies_of_one_array(x):
        states, y = [], x * 1.0
        for i in range(10):
            y[i] = y[i] * x[i]
            states.append(y.copy())
        return np.array(states), y

    @program(False)
    def appended_views(x):
        states, y = [], x * 1.0
        for _ in range(10):
            y = np.sin(y)
            states.append(y[2:5])
        return np.array(states)

    @program(True)
    def several_lists(x):
        times, states, speeds = [], [], []
        t, y, v = 0.0, x, x * 0.5
        for _ in range(10):
            v = v - 0.1 * y
            y = y + 0.1 * v
            t += 0.1
            times.append(t)
            states.append(y)
            speeds.append(v)
            states.append(y * 2)
        return np.array(times), np.array(states), np.array(speeds), times[3]

    @program(True)
    def tuples_and_dicts(x):
        log, y = [], x[0]
        for i in range(10):
            y = np.cos(y) + x[i]
            log.append((i, y, {"half": [0.5 * y, "text"], "t": 2.0 * i}))
        found = np.array([row[2]["half"][0] for row in log])
        return found, log[3][1], log[4][0] + log[5][2]["t"], log[-1][2]["half"][0]

    @program(False)  # the loop that reads them is not one over numbers
    def python_numbers(x):
        states, s = [], 1.5
        for i in range(10):
            s = s * 0.5 + i
            states.append(s)
        y = 0.0
        for at in range(10):
            y = y + states[at] * x[at]
        return y, states[2]

    @program(True)
    def after_the_loop(x):
        states, y = [], x * 1.0
        for _ in range(10):
            y = np.sin(y) * x
            states.append(y)
        total = 0.0
        for state in states[2:]:
            total = total + np.sum(state)
        states[4][2:5] = 1.0
        first, *_, last = states
        even = np.array(states[::2])
        joined = np.array([*states[6:], first, *states[:3]])
        return total, np.array(states), first + last, even, joined, np.vstack(states), len(states)

    @program(True)
    def rows_of_the_same_kind_of_number(x):
        states, s = [], np.float32(1.0) * x[0]
        for i in range(10):
            s = np.tanh(s + x[i])
            states.append(s)
        return np.mean(states), np.concatenate([np.array(states), x]), max(len(states), 3)

    @program(None)
    def nested_loops(x):
        states = []
        for i in range(5):
            y = x[i]
            for j in range(8):
                y = np.sin(y) + x[j]
                states.append(y)
            states.append(y * 2)
        return np.array(states)

    @program(False)
    def previous_one_is_read(x):
        states = [x[0]]
        for i in range(10):
            states.append(np.sin(states[-1]) + x[i])
        return np.array(states)

    @program(False)
    def length_is_read(x):
        states, s = [], x[0]
        for _ in range(10):
            s = s * len(states) + 0.5
            states.append(s)
        return np.array(states)

    @program(False)
    def the_list_has_two_names(x):
        states, s = [], x[0]
        others = states
        for _ in range(10):
            s = np.sin(s) + (others[-1] if others else 0.0)
            states.append(s)
        return np.array(states)

    @program(True)
    def a_list_of_the_iteration(x):
        total = 0.0
        for i in range(10):
            parts = []
            parts.append(x[i] * 2)
            parts.append(total)
            total = parts[0] + 0.5 * parts[1]
        return total

    @program(False)
    def another_function_appends(x):
        states, y = [], x[0]
        for i in range(10):
            y = _noted(states, y + x[i])
        return np.array(states)

    @program(True)
    def a_closure_appends(x):
        states = []

        def step(y, at):
            y = np.sin(y) + x[at]
            states.append(y)
            return y

        y = x[0]
        for i in range(10):
            y = step(y, i)
        return np.array(states), y

    @program(True)
    def stops_early(x):
        states, s = [], x[0]
        for i in range(12):
            s = s * 0.9 + x[i]
            if s > 3.0:
                break
            states.append(s)
        return np.array(states)

    @program(None)
    def lists_of_constants(x):
        counts, y = [], x
        for _ in range(9):
            counts.append([1])
            y = y * 0.9
        counts[0].append(2)
        return y, sum(len(each) for each in counts)

    @program(None)
    def one_container_in_two_lists(x):
        states, others, y = [], [], x
        for _ in range(9):
            state = [y]
            states.append(state)
            others.append(state)
            y = y * 0.9
        states[0].append(2)
        return y, sum(len(each) for each in others)

    @program(None)
    def constants_where_values_branch(x):
        counts, y = [], x
        for _ in range(9):
            counts.append(1)
            if y[0] > 0.2:
                y = y * 0.9
        return y, len(counts)

    @program(None)
    def constants_in_a_triangle(x):
        counts, y = [], x
        for i in range(9):
            for _ in range(i):
                counts.append(1)
                y = y * 0.99
        return y, len(counts)

    @program(False)
    def arrays_of_other_lengths(x):
        rows, y = [], x
        for i in range(10):
            rows.append(y[i:] * 0.5)
            y = y * 0.9
        return *rows, len(rows)

    @program(False)
    def sums_of_other_lengths(x):
        rows, y = [], x
        for i in range(10):
            rows.append({"sum": np.outer(x, y[:i]).sum(axis=0)})
            y = y * 0.9
        return tuple([row["sum"] for row in rows])

    @program(True)
    def numbers_of_parts_of_other_lengths(x):
        rows, y = [], x
        for i in range(10):
            rows.append(np.sum(y[i:] * 0.5))
            y = y * 0.9
        return np.array(rows)
