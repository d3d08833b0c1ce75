"""A cache keeps what was put or found last."""

from tracker.support.recently_used import RecentlyUsed


def test_the_oldest_result_goes():
    squares = RecentlyUsed(2)
    for x in (1, 2):
        squares.put(x, x * x)
    assert squares.get(1) == 1  # now the most recent one
    squares.put(3, 9)
    assert [squares.get(x) for x in (1, 2, 3)] == [1, None, 9]
    assert len(squares) == 2
