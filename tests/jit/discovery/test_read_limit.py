"""Functions that can read more than calls are worth to be compared by (of installed packages, see
`test_site_packages.py`)."""

import pytest

from tracker import jit


class Node:
    def __init__(self, value, children=()):
        self.value, self.children = value, children

    def total(self, x):
        return x * sum(child.value for child in self.children)


def test_very_many_objects_are_not_compared_at_each_call():
    root = Node(0.0, [Node(1.0) for _ in range(8000)])
    fast = jit(root.total)
    with pytest.warns(RuntimeWarning, match="it can read more than 20,000 names and attributes"):
        assert fast(2.0) == 16_000.0
    root.children[7].value = 3.0
    assert fast(2.0) == 16_004.0
