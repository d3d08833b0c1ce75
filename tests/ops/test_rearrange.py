"""Rows of sorting, and functions that pick, repeat and cut."""

from op_rows import row, sample, x, z

from tracker.ops import rearrange

ROWS = [
    row(
        rearrange.sort,
        sample(x(4), axis=0),
        sample(x(2, 3), axis=1),
        sample(x(3, 2), axis=0),
        sample(x(0, 2), axis=1),
        sample(z(4), axis=0),
    ),
]
