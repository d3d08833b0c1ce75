"""Programs with Python loops that store attributes, or carry tuples (`test_python_loops.py`)."""

import enum
import types
from collections import namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
from object_loop_programs import PROGRAMS as PROGRAMS  # all of them
from python_loop_programs import program

NOTES = []
Phase = namedtuple("Phase", "position velocity time")


class Plant:
    made = 0

    def __init__(self, x):
        self.rate, self.y, self.time, self.steps, self.last = x, x * 1.0, 0.0, 0, None
        self.pair = (x * 0.5, 1)

    def step(self, dt=0.05):
        self.y = self.y + dt * np.sin(self.rate * self.y + self.time)
        self.time += dt
        self.steps += 1

    def remember(self):
        self.last = self.y
        self.step()

    def settle(self):
        for _ in range(8):
            self.y = self.y * 0.9 + 0.01 * self.rate

    def turn(self):
        held, counted = self.pair
        self.pair = (held * 0.9 + self.y * 0.1, counted + 1)

    def count(self):
        self.__class__.made += 1
        self.y = self.y * 0.9

    @property
    def level(self):
        return self.y

    @level.setter
    def level(self, new):
        self.y = new * 0.5


class Slotted:
    __slots__ = ("n", "y")

    def __init__(self, y):
        self.y, self.n = y, 0

    def step(self):
        self.y, self.n = self.y * 0.8 + 0.1, self.n + 2


class Noted:
    def __init__(self, y):
        self.seen = []
        self.y = y

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == "y":
            self.seen.append(1)


class Cell:
    def __init__(self, weights):
        self.weights, self.state = weights, None

    def __call__(self, x):
        squash = lambda a: a / (1.0 + np.abs(a))  # noqa: E731
        self.state = squash(self.weights * self.state + x)
        return self.state


def _counted(y):
    _counted.calls += 1
    return y * 0.9


def _remembering(y):
    _remembering.plant.steps += 1
    _remembering.seen.append(1)
    _remembering.found["n"] = _remembering.found["n"] + 1
    return y * 0.9


class Law(enum.Enum):
    SINE = 1

    def force(self, y):
        NOTES.append(1)
        return np.sin(y)

    @property
    def damping(self):
        NOTES.append(2)
        return 0.5


def _noted(y):
    NOTES.append(3)
    return y * 0.9


library = types.ModuleType("library")
library.noted = _noted


def _step_of(module, y):
    return module.noted(y)


def _noise_of(module, y):
    return y * module.random.rand()


class Attributes:
    @program(True)
    def loops_in_loops(x):
        plant = Plant(x)
        for _ in range(5):
            plant.settle()
            plant.step()
        return plant.y, plant.steps

    @program(True)
    def a_state_that_is_none_first(x):
        plant = Plant(x)
        for _ in range(9):
            plant.remember()
        return plant.y - plant.last

    @program(True)
    def a_cell(x):
        cell, total = Cell(x), 0.0
        cell.state = np.zeros(12)
        for i in range(12):
            total = total + np.sum(cell(x[i] * x))
        return total, cell.state

    @program(True)
    def slots(x):
        held = Slotted(x)
        for _ in range(9):
            held.step()
        return held.y, held.n

    @program(True)
    def setters(x):
        plant = Plant(x)
        for _ in range(9):
            plant.level = plant.level + 0.3
        return plant.y

    @program(True)
    def a_tuple_in_an_attribute(x):
        plant = Plant(x)
        for _ in range(9):
            plant.turn()
        return (*plant.pair,)

    @program(True)
    def appends_what_it_stores(x):
        plant, seen = Plant(x), []
        for _ in range(9):
            plant.step()
            seen.append(plant.y)
        return np.stack(seen), plant.y, plant.time

    @program(True)
    def swaps(x):
        two = SimpleNamespace(now=x, before=x * 0.9)
        for _ in range(9):
            new = 1.8 * two.now - 0.9 * two.before
            two.before = two.now
            two.now = new
        return two.now, two.before

    @program(None)
    def appends_and_swaps(x):
        now, before, seen = x, x * 0.9, []
        for _ in range(9):
            seen.append(before)
            before, now = now, 1.8 * now - 0.9 * before
        before += 1.0
        return now, before, np.stack(seen)

    @program(None)
    def binds_a_name_late(x):
        s = x[0] + 0.2
        for _ in range(12):
            if s > 3.0:
                s = s + last * 0.1  # noqa: F821
            last = s * 0.5  # noqa: F841
            s = s * 1.3
        return s

    @program(None)
    def a_name_goes_to_two(x):
        a, b, c = x, x * 0.9, x * 0.8
        for _ in range(9):
            a, b, c = a * 0.9 + b + c, a, a
        b[0] = 7.0
        return a, b, c

    @program(None)
    def names_that_turn(x):
        a, b, c = x, x * 0.9, x * 0.8
        for _ in range(8):
            a, b, c = b, c, a
        a[0] = 7.0
        return a, b, c, x

    @program(None)
    def names_that_turn_back(x):
        a, b, c = x, x * 0.9, x * 0.8
        for _ in range(9):
            a, b, c = b, c, a
        a[0] = 7.0
        return a, b, c, x

    @program(None)
    def names_that_move_further_than_the_loop(x):
        held, a, b, c, d = SimpleNamespace(e=x * 0.5), x, x * 0.9, x * 0.8, x * 0.7
        for _ in range(4):
            held.e, d, c, b, a = d, c, b, a, a * 0.5 + held.e
        held.e[0] = 7.0
        return a, b, c, d, held.e, x

    @program(None)
    def a_view_of_what_is_appended(x):
        y, seen = x * 1.0, []
        for _ in range(9):
            new = y * 0.9
            seen.append(new)
            y = new[::-1]
        y[0] = 7.0
        return np.stack(seen), y

    @program(None)
    def appends_what_moves(x):
        now, before, seen = x, x * 2.0, []
        for _ in range(9):
            before, now = now, now * 0.9
            seen.append(now)
        before[0], now[1], seen[2][2] = 7.0, 8.0, 9.0
        return now, before, np.stack(seen)

    @program(None)
    def writes_and_swaps(x):
        now, before = x * 1.0, x * 0.9
        for i in range(9):
            before[i] = now[i] * 0.5
            before, now = now, 1.8 * now - 0.9 * before
        return now, before

    @program(None)
    def takes_an_array_from_outside(x):
        y, z = x * 2.0, x * 3.0
        for _ in range(9):
            z = z * 0.9 + y
            y = x
        y[0] = 7.0
        return x, y, z

    @program(None)
    def one_array_in_two_objects(x):
        a, b = SimpleNamespace(y=x), SimpleNamespace(y=x)
        for _ in range(9):
            a.y = a.y * 0.9 + 0.1 * b.y
        return a.y, b.y

    @program(None)
    def one_object_with_two_names(x):
        plant = Plant(x)
        other = plant
        for _ in range(9):
            plant.step()
            other.y = other.y * 0.5
        return plant.y, other.time

    @program(None)
    def one_array_written_in_two_objects(x):
        a = SimpleNamespace(y=x * 1.0)
        b = SimpleNamespace(y=a.y)
        for i in range(9):
            a.y[i] = b.y[i + 1] * 0.5
            b.y = b.y * 0.9
        return a.y, b.y

    @program(False)
    def a_class_that_counts(x):
        Plant.made = 0
        plant = Plant(x)
        for _ in range(9):
            plant.count()
        return plant.y * Plant.made

    @program(None)
    def a_function_that_counts(x):
        _counted.calls, y = 0, x
        for _ in range(9):
            y = _counted(y)
        return y * _counted.calls

    @program(None)
    def a_function_that_remembers(x):
        _remembering.plant, _remembering.seen, y = Plant(x), [], x
        _remembering.found = {"n": 0}
        for _ in range(9):
            y = _remembering(y)
        counts = _remembering.plant.steps, len(_remembering.seen), _remembering.found["n"]
        del _remembering.plant, _remembering.seen, _remembering.found
        return (y, *counts)

    @program(None)
    def methods_of_an_enumeration(x):
        held, y = SimpleNamespace(law=Law.SINE), x
        NOTES.clear()
        for _ in range(9):
            y = held.law.force(y)
        for _ in range(9):
            y = y * Law.SINE.damping
        return y, len(NOTES)

    @program(None)
    def a_function_of_a_module(x):
        y = x
        NOTES.clear()
        for _ in range(9):
            y = _step_of(library, y)
        return y, len(NOTES)

    @program(None)
    def draws_of_a_module(x):
        np.random.seed(3)
        y = x
        for _ in range(9):
            y = _noise_of(np, y)
        return y

    @program(None)
    def a_setattr_of_its_own(x):
        held = Noted(x)
        for _ in range(9):
            held.y = held.y * 0.9
        return held.y * len(held.seen)

    @program(None)
    def an_attribute_that_comes_late(x):
        held = SimpleNamespace(y=x)
        for i in range(9):
            held.y = held.y * 0.9
            if i > 5:
                held.late = i
        return held.y * held.late

    @program(None)
    def an_attribute_of_another_type(x):
        held = SimpleNamespace(y=x, n=1)
        for _ in range(9):
            held.y = held.y * held.n
            held.n = held.n * 0.5
        return held.y, held.n

    @program(None)
    def a_new_object_in_each_iteration(x):
        held = SimpleNamespace(part=SimpleNamespace(y=x))
        for _ in range(9):
            held.part = SimpleNamespace(y=held.part.y * 0.9)
        return held.part.y

    @program(None)
    def errors(x):
        plant = Plant(x)
        try:
            for i in range(12):
                plant.step()
                plant.rate = plant.rate[: 12 - i // 9]
        except ValueError:
            return plant.y, plant.time, plant.steps
        return x


class Vector:
    made: ClassVar[list] = []

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    @property
    def noted(self):
        return self.x

    @noted.setter
    def noted(self, by):
        self.x = self.x * by
        self.made.append(1)

    def scaled(self, by):
        return Vector(by * self.x, by * self.y)

    @property
    def length(self):
        return np.sqrt(self.x**2 + self.y**2)


class NotedVector(Vector):
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.made.append(1)

    def twice(self):
        return self.__class__(2.0 * self.x, self.y)


@dataclass(frozen=True)
class Segment:
    start: float
    end: float
    seen: list = field(default_factory=list)

    def middle(self):
        return 0.5 * (self.start + self.end)


@dataclass
class Checked:
    level: float
    checks: ClassVar[list] = []

    def __post_init__(self):
        self.checks.append(1)


class Made:
    """Objects that iterations make."""

    @program(True)
    def vectors(x):
        y, light = x, Vector(x[0], x[1])
        for _ in range(9):
            ray = Vector(y, 0.1) + light.scaled(0.5)
            y = y * 0.8 + 0.1 * ray.length
        return y + light.length

    @program(True)
    def frozen_dataclasses(x):
        y = x
        for i in range(9):
            y = 0.9 * Segment(y, x[i]).middle()
        return y

    @program(None)
    def a_vector_that_is_carried(x):
        at = Vector(x, x * 0.5)
        for _ in range(9):
            at = at + at.scaled(0.1)
        return at.x, at.y

    @program(False)
    def vectors_that_are_noted(x):
        NotedVector.made.clear()
        y = x
        for _ in range(9):
            y = 0.3 * NotedVector(y, 0.1).twice().length
        return y * len(NotedVector.made)

    @program(False)
    def objects_that_are_checked(x):
        Checked.checks.clear()
        y = x
        for _ in range(9):
            y = 0.3 * Checked(y).level
        return y * len(Checked.checks)

    @program(False)
    def setters_that_note(x):
        NotedVector.made.clear()
        y = x
        for _ in range(9):
            ray = Vector(y, 0.1)
            ray.noted = 0.5
            y = 0.9 * ray.length
        return y * len(Vector.made)

    @program(False)
    def the_class_of_an_object(x):
        NotedVector.made.clear()
        y, one = x, NotedVector(x, 0.5)
        for _ in range(9):
            y = 0.9 * one.__class__(y, 0.1).length
        return y * len(NotedVector.made)


class Tuples:
    @program(True)
    def a_function_of_a_tuple(x):
        def step(state):
            y, (v, t) = state
            return y + 0.1 * v, (v - 0.1 * y, t + 0.1)

        state = (x, (x * 0.5, 0.0))
        for _ in range(9):
            state = step(state)
        return state[0] * state[1][0], state[1][1]

    @program(True)
    def a_named_tuple(x):
        state = Phase(x, x * 0.5, 0)
        for _ in range(9):
            y, v, t = state
            state = Phase(y + 0.1 * v, v - 0.1 * y, t + 1)
        return state.position, state.time

    @program(None)
    def a_tuple_that_grows(x):
        state = (x,)
        for _ in range(6):
            state = (*state, state[-1] * 0.9)
        return state[-1] + len(state)

    @program(None)
    def a_tuple_that_turns(x):
        state = (x, x * 2.0, x * 3.0)
        for _ in range(8):
            state = (state[1], state[2], state[0] * 0.9)
        return state

    @program(None)
    def one_array_twice(x):
        state = (x, x)
        for _ in range(8):
            state = (state[0] * 0.9, state[1] + 0.1)
        return state

    @program(None)
    def an_empty_tuple_that_grows(x):
        held, counts, y = SimpleNamespace(counts=()), (), x
        for _ in range(9):
            held.counts += (1,)
            counts = (*counts, 2)
            y = y * 0.9
        return y, len(held.counts), sum(counts)
