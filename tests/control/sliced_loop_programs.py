"""Programs with Python loops over slices whose extents move: what is left out of them, in which
direction they go, and how they vary; added to the others."""

import numpy as np
from python_loop_programs import M, X, program
from shrinking_loop_programs import PROGRAMS as PROGRAMS


class Variances:
    """Of slices whose extents move."""

    @program(True)
    def volatility_so_far(x):
        y = np.zeros(12)
        for i in range(1, 12):
            y[i] = np.std(x[: i + 1]) * x[i] + x[:i].var()
        return y

    @program(True, X, X.astype(np.float32))
    def corrected_ones(x, single):
        s, t = 0.0, np.float32(0.0)
        for i in range(9):
            s = s + np.var(x[i:] * x[0], ddof=1) + x[: i + 2].std(ddof=1, keepdims=True)[0]
            t = t + np.std(single[i:])
        return s, t

    @program(None, M)
    def of_rows(m):
        s = 0.0
        for i in range(2, 12):
            s = s + np.sum(np.var(m[:i], axis=0)) + np.sum(m[:, :i].std(axis=1, ddof=1))
        return s

    @program(None)
    def of_one_number(x):
        y = np.zeros(12)
        for i in range(1, 12):
            with np.errstate(all="ignore"):
                y[i] = np.nan_to_num(np.var(x[:i], ddof=1 - i))
        return y


class Backwards:
    """Slices that step backwards."""

    @program(True, X, X[:3])
    def autoregression(x, phi):
        y = x.copy()
        for t in range(3, 12):
            y[t] = x[t] + 0.3 * (phi @ x[t : t - 3 : -1])
        return y

    @program(True, X, np.cos(X))
    def convolution(x, h):
        y = np.zeros(12)
        for t in range(12):
            y[t] = np.sum(h[: t + 1] * x[t::-1])
        return y

    @program(True, X, M)
    def down_to_a_number(x, m):
        s = 0.0
        for k in range(1, 12):
            s = s + np.sum(x[:k] * x[k:0:-1]) + np.sum(m[k, k:0:-1])
        return s

    @program(True, M)
    def both_axes(m):
        s = 0.0
        for k in range(1, 12):
            s = s + np.sum(m[k::-1, :k] * m[: k + 1, k:0:-1])
        return s

    @program(True)
    def up_from_a_number(x):
        s = 0.0
        for k in range(11):
            s = s + np.sum(x[: 11 - k] * x[:k:-1])
        return s

    @program(None)
    def around_the_end(x):
        s = 0.0
        for k in range(12):
            s = s + np.sum(x[k : k - 3 : -1])
        return s

    @program(None)
    def written_backwards(x):
        for k in range(1, 12):
            x[k:0:-1] = x[:k] * 0.5
        return x


class Cuts:
    """Slices whose extents move, without their ends."""

    @program(True)
    def differences_of_what_is_left(x):
        s = 0.0
        for i in range(9):
            d = x[i:] * 0.5
            s += np.sum(d[1:] * d[:-1]) + np.sum(np.log(d[2:-1]))
        return s

    @program(True, M)
    def without_borders(m):
        s = 0.0
        for i in range(3, 12):
            d = m[:i] - m[0]
            s += np.sum((d[1:-1, 2:] - d[:-2, :-2]) ** 2)
        return s

    @program(None)
    def too_short_at_first(x):
        s = 0.0
        for i in range(12):
            s += np.sum(x[:i][1:-1])
        return s


class Carried:
    """Slices that are carried, of which only the first one is the whole array."""

    @program(None)
    def from_further_on(x):
        for k in range(4):
            x = x[k:] * 0.5
        return x

    @program(None)
    def up_to_earlier(x):
        for k in range(5):
            x = np.sin(x[: 12 - k])
        return x
