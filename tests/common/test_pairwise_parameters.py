"""What `pairwise_parameters.py` keeps of a product."""

import itertools

import pairwise_parameters
import pytest
from pairwise_parameters import combinations, covering, crossed, pairs

SIZES = [(9, 5, 4), (34, 2, 4), (2, 4, 5, 2), (3, 3), (2, 2, 2, 2, 2), (1, 4, 1)]


@pytest.mark.parametrize("sizes", SIZES)
def test_every_pair_is_kept_in_few_rows(sizes):
    rows = combinations([range(n) for n in sizes], lambda *values: True)
    kept = covering(rows)
    assert set(kept) <= set(rows) and len(set(kept)) == len(kept)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in kept} == {(row[a], row[b]) for row in rows}
    most = max((a * b for a, b in itertools.combinations(sizes, 2)), default=0)
    assert most <= len(kept) <= 1.3 * most + 4


def test_pairs_that_occur_only_with_some_values_are_kept_with_these():
    rows = combinations(["abc", (1, 2, 3, 4), (None, [])], lambda a, b, c: a != "b" or b > 3)
    assert set().union(*map(pairs, covering(rows))) == set().union(*map(pairs, rows))
    assert all(row in rows for row in covering(rows))


@pytest.mark.parametrize("deep", [False, True])
def test_a_test_gets_values_under_the_names_of_the_columns(deep, monkeypatch):
    monkeypatch.setattr(pairwise_parameters, "DEEP", deep)

    @crossed(
        name={"a": 0, "b": 1},
        shape=[(), (2,)],
        kind=["f4", "f8"],
        where=lambda *v: v[1] or v[0] == "a",
    )
    def test():
        pass

    marks = {mark.name: mark for mark in test.pytestmark}
    names, rows = marks["parametrize"].args
    assert names == ["name", "shape", "kind"]
    assert len(rows) == (6 if deep else 5) and ("a", (), "f4") in rows
    assert not any(name == "b" and shape == () for name, shape, _ in rows)
    assert "crossed" in marks
