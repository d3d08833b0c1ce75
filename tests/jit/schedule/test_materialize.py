"""Functions, divisions and roots of values that many elements read: computed once and stored."""

import numpy as np
from compiled import agree

from tracker import gradient, withgradient

RNG = np.random.default_rng(0)


def check(f, *arguments):
    """The compiled text, after a check of the results."""
    fast = agree(f, *arguments, strict=True)
    return fast.explain(*arguments)


def test_a_root_of_each_column_is_stored():
    x = RNG.normal(size=(80, 50))
    text = check(lambda x: gradient(lambda x: np.sum(np.std(x, axis=0)), x), x)
    kept = [line for line in text.splitlines() if "kept: " in line and "[1,50]" in line]
    assert len(kept) == 2, text


def test_a_function_of_each_row_is_stored_for_few_columns():
    """A loop over the rows alone computes it by vectors; within a row of three, it would not be."""
    x = RNG.normal(size=(500, 3))
    angle = RNG.normal(size=(500, 1))
    text = check(lambda x, angle: (x * np.cos(angle), x[:, ::-1] * np.sin(angle)), x, angle)
    kept = [line for line in text.splitlines() if "kept: " in line and "[500,1]" in line]
    assert len(kept) == 2, text


def test_it_is_recomputed_where_storing_it_would_delay_a_loop():
    """Other elements are computed at its level already: a second loop would read them again."""

    def loss(x, scale):
        return np.sum(np.square(x / (scale * scale + 1.0) + 1.0) * x)

    x, scale = RNG.normal(size=(80, 50)), RNG.normal(size=50)
    text = check(lambda x, s: withgradient(loss, x, s).grad, x, scale)
    assert text.count("kernel over 80x50") == 1, text


def test_a_broadcast_element_and_an_embedded_one():
    """A broadcast element needs no index, and the loops collapse; an embedded one does."""
    x = RNG.normal(size=(40, 5, 30))
    for given in (x, np.asfortranarray(x), x.transpose(1, 0, 2), x[:, ::2]):
        check(
            lambda x: (
                x + np.broadcast_to(x[1, 1, 1], x.shape),
                np.broadcast_to(x[0, 0, 0], x.shape) * 2.0,
            ),
            given,
        )
        check(lambda x: (x * np.ones_like(x), np.broadcast_to(x[:1, :1, :1], x.shape) - x), given)
        check(lambda x: gradient(lambda x: np.sum(x) * x[3, 1, 2] + x[0, 2, 4] ** 2, x), given)
        check(lambda x: (np.pad(x[:1, :1, 0], ((3, 36), (1, 28))), np.sum(x)), given)


def test_a_view_of_what_is_stored_later_is_read_in_memory():
    """Then products with it are cheap to compute again."""

    def f(a, b):
        b = b.copy()
        for i in range(20):
            for j in range(30):
                b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
        return np.sum(b)

    a, b = RNG.standard_normal((20, 20)), RNG.standard_normal((20, 30))
    text = check(lambda a, b: gradient(f, a, b), a, b)
    assert not [line for line in text.splitlines() if "kept: " in line and "[30,19]" in line]
