"""Records: what they share with dataclasses."""

import copy
import pickle
from typing import ClassVar

import pytest

from tracker.support.structs import field, field_names, record, replace


@record(frozen=True)
class Point:
    """Two numbers and a label, which does not count."""

    x: float
    label: str = field(compare=False)
    y: float = 0.0
    origin: ClassVar[str] = "here"

    @property
    def size(self):
        return self.x + self.y


@record(frozen=True)
class Solid(Point):
    z: float = 1.0


@record()
class Bag:
    things: list[int] = field(default_factory=list)


@record(eq=False)
class Node:
    value: int


@record(frozen=True, slots=False)
class Own:
    x: int
    y: int

    def __repr__(self):
        return f"<{self.x}>"

    def __hash__(self):
        return 7


def test_fields_come_by_position_and_by_name():
    point = Point(1.0, y=2.0, label="a")
    assert (point.x, point.y, point.label, point.size) == (1.0, 2.0, "a", 3.0)
    assert Point.origin == "here"
    assert field_names(Point) == ("x", "label", "y")


def test_a_missing_or_unknown_field_is_an_error():
    with pytest.raises(TypeError, match="missing 1 required"):
        Node()
    with pytest.raises(TypeError, match="unexpected keyword"):
        Node(1, other=2)
    with pytest.raises(AttributeError):
        Node(1).other = 2


def test_values_are_compared_field_by_field():
    assert Point(1.0, "a", 2.0) == Point(1.0, "b", 2.0)
    assert Point(1.0, "a", 2.0) != Point(1.0, "a", 3.0)
    assert Point(1.0, "a", 2.0) != (1.0, 2.0)
    assert hash(Point(1.0, "a", 2.0)) == hash(Point(1.0, "b", 2.0))
    assert Solid(1.0, "a", 2.0) != Point(1.0, "a", 2.0)
    assert Bag([1]) == Bag([1])
    assert Node(1) != Node(1)
    assert len({Node(1), Node(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Bag())


def test_a_default_is_made_for_each_record():
    first, second = Bag(), Bag()
    first.things.append(1)
    assert second.things == []


def test_fields_of_a_base_come_first():
    assert field_names(Solid) == ("x", "label", "y", "z")
    assert replace(Solid(1.0, "a", 2.0), z=3.0) == Solid(1.0, "a", 2.0, 3.0)
    assert not hasattr(Solid(1.0, label=""), "__dict__")


def test_own_methods_are_kept():
    assert repr(Own(1, 2)) == "<1>"
    assert hash(Own(1, 2)) == 7
    assert Own(1, 2) == Own(1, 2)
    assert repr(Point(1.0, label="a")) == "Point(x=1.0, label='a', y=0.0)"
    assert Point.__doc__ == "Two numbers and a label, which does not count."
    assert Point.__module__ == __name__


def test_records_are_copied_and_pickled():
    for x in (Point(1.0, "a", 2.0), Solid(1.0, "a", 2.0), Bag([1]), Own(1, 2)):
        assert copy.deepcopy(x) == x
        assert pickle.loads(pickle.dumps(x)) == x
