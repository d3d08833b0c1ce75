"""Programs with Python loops over objects of the user's classes (`test_python_loops.py`)."""

import enum
import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from appending_loop_programs import PROGRAMS as PROGRAMS  # all of them
from python_loop_programs import program


class Law(enum.Enum):
    LINEAR = 1
    SINE = 2


class Tools(NamedTuple):
    library: Any
    kept: list
    show: Any


class Field:
    rate = 0.1

    def __init__(self, x):
        self.weights, self.law, self.parts = x * 2.0, Law.SINE, [x, SimpleNamespace(scale=0.5)]
        self.laws = {"sine": np.sin, "square": lambda y: y * y}
        self.matrix = np.eye(12) * 0.5
        self.step = 0.05

    def flow(self, y):
        return self.force(y) * self.parts[1].scale + self.total * self.matrix @ y

    def force(self, y):
        if self.law == Law.SINE:
            return np.sin(y) * self.weights
        return y

    @property
    def total(self):
        return np.mean(self.weights)

    @staticmethod
    def damped(y):
        return y * 0.9

    def __call__(self, y, scale=1.0):
        return self.damped(y) + self.step * scale * self.flow(y)

    def __mul__(self, y):
        return y * self.rate


@dataclass
class Spring:
    stiffness: float
    offset: float = 0.2

    def pull(self, y):
        return -self.stiffness * (y - self.offset)


class Counter:
    def __init__(self):
        self.calls, self.seen = 0, []

    def counted(self, y):
        self.calls += 1
        return y * self.calls

    def noted(self, y):
        self.seen.append(y)
        return y * 0.5

    @functools.cached_property
    def half(self):
        return 0.5

    def __getattr__(self, name):
        return 0.25


class Objects:
    @program(True)
    def methods(x):
        field, y = Field(x), x
        for _ in range(9):
            y = field(y) + 0.1 * field.flow(y)
        return y

    @program(True)
    def operators(x):
        field, y = Field(x), x
        for _ in range(9):
            y = y + 0.01 * (field * y)
        return y

    @program(True)
    def a_bound_method(x):
        flow, y = Field(x).flow, x
        for _ in range(9):
            y = y + 0.1 * flow(y)
        return y

    @program(True)
    def functions_in_a_dict(x):
        field, y = Field(x), x
        for _ in range(9):
            y = y + 0.1 * field.laws["square"](field.laws["sine"](y))
        return y

    @program(True)
    def fields_of_a_captured_named_tuple(x):
        tools = Tools(np, [x * 0.1], print)  # a function that reads no `show`, which would print

        def step(y):
            tools.kept[0] = tools.kept[0] * 0.9
            return y + tools.library.sin(y) * tools.kept[0]

        y = x
        for _ in range(9):
            y = step(y)
        return y, tools.kept[0]

    @program(False)
    def a_field_of_a_captured_named_tuple_that_prints(x):
        tools, y = Tools(np, [x], print), x

        def step(y):
            tools.show("step")
            return y + tools.library.sin(y)

        for _ in range(9):
            y = step(y)
        return y

    @program(True)
    def objects_in_a_list(x):
        springs, y = [Spring(1.0), Spring(x[0], x[1])], x
        for _ in range(9):
            for spring in springs:
                y = y + 0.1 * spring.pull(y)
        return y

    @program(True)
    def a_function_made_in_the_loop(x):
        y = x
        for _ in range(9):
            bent = lambda a: a / (1.0 + np.abs(a))  # noqa: E731
            y = bent(y) + 0.1 * scipy.special.expit(y)
        return y

    @program(True)
    def appends_to_an_attribute(x):
        counter, y = Counter(), x
        for _ in range(9):
            counter.seen.append(y)
            y = y * 0.5
        return np.stack(counter.seen), y

    @program(True)
    def writes_into_an_attribute(x):
        held, y = SimpleNamespace(found=np.zeros(12)), x
        for i in range(12):
            held.found[i] = np.sum(y)
            y = y * 0.9
        return held.found * y

    @program(None)
    def changes_its_law(x):
        field, y = Field(x), x
        for i in range(9):
            y = field(y)
            if i == 4:
                field.law = Law.LINEAR
        return y

    @program(True)
    def counts(x):
        counter, y = Counter(), x
        for _ in range(9):
            y = counter.counted(y) * 0.3
        return y * counter.calls

    @program(False)
    def makes_attributes(x):
        counter, y = Counter(), x
        for _ in range(9):
            y = y * counter.half + counter.missing
        return y
