"""Rows of the matrix products."""

from op_rows import row, sample, x, z

SHAPES = [
    *(((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((4, 2, 3), (3, 2))),
    *(((2, 3), (4, 3, 2)), ((4, 1, 2, 3), (2, 3, 2)), ((3,), (4, 3, 2)), ((4, 2, 3), (3,))),
    *(((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0,), (0,))),
]

ROWS = [
    row(
        "matmul",
        *(sample(x(*a), x(*b, seed=1)) for a, b in SHAPES),
        *(sample(z(*a), z(*b)) for a, b in SHAPES[:8]),
        sample(x(2, 3), z(3, 2)),
        sample(z(3), x(3)),
    )
]
