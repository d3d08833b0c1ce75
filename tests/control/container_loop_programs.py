"""Programs with Python loops that bind lists, dicts and objects anew, or store into them
(`test_python_loops.py`)."""

import dataclasses
from collections import namedtuple
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from python_loop_programs import X, program
from stateful_loop_programs import PROGRAMS as PROGRAMS  # all of them

Orbit = namedtuple("Orbit", "place speed")


@dataclass
class State:
    place: np.ndarray
    speed: np.ndarray
    time: float = 0.0
    steps: int = 0
    label: str = "body"

    def step(self, rate, dt=0.05):
        force = -rate * self.place + np.sin(self.time)
        place = self.place + dt * self.speed
        return State(place, self.speed + dt * force, self.time + dt, self.steps + 1)

    def moved(self, dt=0.05):
        return replace(self, place=self.place + dt * self.speed, time=self.time + dt)

    def moves(self, dt=0.05):
        self.place = self.place + dt * self.speed
        self.time += dt
        return self

    def numbers(self):
        return self.place, self.speed, self.time, self.steps


@dataclass(frozen=True)
class Frozen:
    level: np.ndarray
    rate: float

    def __post_init__(self):
        object.__setattr__(self, "half", self.level * 0.5)

    def next(self):
        return Frozen(self.level * self.rate + 0.01, self.rate)


@dataclass(frozen=True, slots=True)
class Slots:
    level: np.ndarray
    n: int = 0

    def next(self):
        return Slots(self.level * 0.9 + 0.01 * self.n, self.n + 1)


class Written:
    def __init__(self, y, other=None):
        self.y, self.other, self.rate = y, other, 0.9

    def next(self):
        return Written(self.y * self.rate, self.other)

    def add(self, other):
        return Written(self.y + other.y, self)


class Simulation:
    def __init__(self, x):
        self.rate, self.state, self.table = x * 0.3, State(x, x * 0.1), {"sum": 0.0, "n": 0}

    def run(self, n):
        for _ in range(n):
            self.state = self.state.step(self.rate)
        return self.state.numbers()

    def tabulate(self, n):
        for i in range(n):
            self.table["sum"] = self.table["sum"] + self.rate * i
            self.table["n"] += 1
        return self.table["sum"], self.table["n"]


class BoundAnew:
    @program(True)
    def fields_are_replaced(x):
        state = State(x, x * 0.1)
        for _ in range(15):
            state = replace(state, speed=state.speed * 0.9, steps=state.steps + 1).moved()
        return state.numbers()

    @program(True)
    def fields_of_a_named_tuple_are_replaced(x):
        orbit = Orbit(x, x * 0.1)
        for _ in range(12):
            orbit = orbit._replace(place=orbit.place + 0.1 * orbit.speed)
            orbit = orbit._replace(speed=orbit.speed - 0.1 * orbit.place)
        return orbit.place, orbit.speed

    @program(None)
    def frozen_objects(x):
        one = Frozen(x, 0.9)
        for _ in range(12):
            one = one.next()
        return one.level, one.half, one.rate

    @program(True)
    def objects_with_slots(x):
        one = Slots(x)
        for _ in range(12):
            one = one.next()
        return one.level, one.n

    @program(True)
    def objects_of_a_written_class(x):
        one = Written(x)
        for _ in range(12):
            one = one.next()
        return one.y, one.rate

    @program(True)
    def lists(x):
        pair = [x[0], x[1]]
        for _ in range(12):
            pair = [pair[0] + 0.1 * pair[1], pair[1] - 0.1 * pair[0]]
        return pair[0], pair[1]

    @program(True)
    def an_attribute(x):
        return Simulation(x).run(12)

    @program(True)
    def namespaces(x):
        state = SimpleNamespace(y=x, n=0)
        for _ in range(14):
            state = SimpleNamespace(y=state.y * 0.9, n=state.n + 1)
        return state.y, state.n

    @program(True)
    def arrays_in_turn(x):
        state = {"now": x, "before": x * 0.5}
        for _ in range(12):
            state = {"now": 0.9 * state["now"] - 0.1 * state["before"], "before": state["now"]}
        return state["now"], state["before"]

    @program(True)
    def a_part_is_the_same_object(x):
        options = {"rate": 0.1, "weights": x * 2.0}
        state = {"y": x, "options": options}
        for _ in range(12):
            rate, weights = state["options"]["rate"], state["options"]["weights"]
            state = {"y": state["y"] + rate * weights, "options": state["options"]}
        return state["y"], state["options"] is options

    @program(True)
    def the_first_object_is_what_it_was(x):
        first = State(x, x * 0.1)
        state = first
        for _ in range(12):
            state = state.step(x)
        return first.place, first.time, first.steps, state.place, first is state

    @program(True)
    def under_another_name_too(x):
        state = State(x, x * 0.1)
        for _ in range(12):
            new = state.step(x)
            state = new
        return new is state, new.time, state.place

    @program(None)
    def written_in_place_and_bound_anew(x):
        state = State(x, x * 0.1)
        first = state
        for _ in range(12):
            state.speed = state.speed * 0.9
            state = state.step(x)
        return (*first.numbers(), *state.numbers())

    @program(True)
    def the_object_itself(x):
        state = State(x, x * 0.1)
        first = state
        for _ in range(15):
            state = state.moves()
        return (*state.numbers(), first is state)

    @program(None)
    def the_one_before(x):
        before = state = State(x, x * 0.1)
        for _ in range(12):
            before, state = state, state.step(x)
        return (*before.numbers(), *state.numbers())

    @program(None)
    def linked_objects(x):
        one, two = Written(x), Written(x * 0.5)
        for _ in range(8):
            one, two = two, one.add(two)
        return one.y, two.y, two.other is one, one.other.y

    @program(True)
    def all_are_kept(x):
        state, kept = State(x, x * 0.1), []
        for _ in range(14):
            state = state.step(x)
            kept.append(state)
        kept[-1].place = kept[-1].place * 2.0
        return (state.place, kept[0].place, kept[5].time, kept[-1] is state, len(kept[4].label))

    @program(True)
    def those_from_before_are_kept(x):
        state, kept = State(x, x * 0.1), []
        first = state
        for _ in range(14):
            kept.append(state)
            state = state.step(x)
        kept[0].place = kept[0].place * 2.0
        return (first.place, kept[5].time, kept[6].place, kept[0] is first, kept[-1] is state)

    @program(None)
    def those_before_and_after_are_kept(x):
        state, old, new = {"y": x, "t": 0.0}, [], []
        for _ in range(12):
            old.append(state)
            state = {"y": state["y"] * 0.9, "t": state["t"] + 0.5}
            new.append(state)
        old[3]["y"] = old[3]["y"] * 2.0
        return new[2]["y"], old[3] is new[2], old[4]["t"], new[-1] is state

    @program(True)
    def dicts_are_kept(x):
        state, kept = {"y": x}, []
        for _ in range(12):
            state = {"y": state["y"] * 0.9}
            kept.append(state)
        kept[-1]["y"] = kept[-1]["y"] * 2.0
        return state["y"], kept[0]["y"], kept[-1] is state

    @program(True)
    def with_tuples_in_them(x):
        state, kept = {"pair": (x, 0.5), "n": 0}, []
        for _ in range(12):
            kept.append(state)
            y, t = state["pair"]
            state = {"pair": (y * 0.9 + t, t + 0.5), "n": state["n"] + 1}
        return kept[4]["pair"][0], kept[4]["pair"][1], kept[3]["n"], state["pair"][1]

    @program(True)
    def records_are_kept(x):
        y, kept = x, []
        for i in range(12):
            y = y * 0.9
            kept.append(Slots(np.sum(y), i))
        return sum(each.level for each in kept), kept[3].n, kept[2].level

    @program(True)
    def what_they_share_is_kept(x):
        options, kept = {"rate": 0.9}, []
        y = x
        for _ in range(12):
            y = y * options["rate"]
            kept.append({"y": y, "options": options})
        return kept[3]["y"], kept[3]["options"] is options

    @program(None)
    def one_object_that_changes_is_kept(x):
        state, kept = {"y": x}, []
        for _ in range(12):
            state["y"] = state["y"] * 0.9
            kept.append(state)
        return kept[0]["y"], kept[3] is state

    @program(None)
    def an_object_and_its_array_are_kept(x):
        state, kept, arrays = State(x, x * 0.1), [], []
        for _ in range(14):
            state = state.step(x)
            kept.append(state)
            arrays.append(state.place)
        arrays[3][0] = 5.0
        return kept[3].place, arrays[3] is kept[3].place, arrays[-1] is state.place

    @program(None)
    def an_array_is_kept_twice(x):
        now, before, kept = x, x * 0.5, []
        for _ in range(12):
            now = 0.9 * now - 0.1 * before
            kept.append((now, before))
            before = now
        kept[3][0][0] = 5.0
        return kept[3][0], kept[4][1], kept[4][1] is kept[3][0]

    @program(None)
    def one_object_in_two_places(x):
        one = two = Written(x)
        for _ in range(9):
            one = two = one.next()
        one.y = one.y * 2.0
        return one.y, two.y, one is two

    @program(None)
    def back_to_an_object_from_before(x):
        first = Written(x)
        one = first
        for i in range(9):
            one = first if i == 5 else one.next()
        return one.y, first.y

    @program(None)
    def a_list_grows(x):
        path = [x]
        for _ in range(9):
            path = [*path, path[-1] * 0.9]
        return path[3], path[-1], len(path)

    @program(None)
    def a_field_changes_its_type(x):
        state = {"y": x, "done": False, "n": None}
        for i in range(9):
            state = {"y": state["y"] * 0.9, "done": i > 6, "n": i}
        return state["y"], state["done"], state["n"]

    @program(None)
    def two_fields_have_one_array(x):
        state = {"a": x, "b": x * 0.5}
        for _ in range(9):
            new = state["a"] * 0.9
            state = {"a": new, "b": new}
        state["a"][0] = 5.0
        return state["a"], state["b"]

    @program(True)
    def an_array_in_it_is_written(x):
        state, first = {"y": x, "n": 0}, x
        for i in range(12):
            state["y"][i] = state["y"][i] * 0.5 + state["n"]
            state = {"y": state["y"], "n": state["n"] + 1}
        return state["y"], first, state["n"]

    @program(True)
    def an_object_for_each_row(x):
        total = 0.0
        for i in range(6):
            state = Slots(x * i)
            for _ in range(9):
                state = state.next()
            total = total + state.level
        return total

    @program(True)
    def counts_from_zero(x):
        state = State(x, x * 0.1, 0.0, 0)
        for i in range(15):
            state = State(state.place * 0.9, state.speed, i * 0.5, i)
        return state.numbers()


class StoredInto:
    @program(True)
    def a_dict(x):
        state = {"y": x, "t": 0.0, "label": "body"}
        for _ in range(12):
            state["y"] = state["y"] + 0.1 * np.sin(state["t"]) * x
            state["t"] += 0.1
        return state["y"], state["t"], state["label"] == "body"

    @program(True)
    def a_dict_of_an_object(x):
        return Simulation(x).tabulate(12)

    @program(True)
    def a_list_of_lists(x):
        table = [[x[0], x[1]], [x[2], 1.0]]
        for _ in range(12):
            table[0][0] = table[0][0] * 0.9 + table[1][1]
            table[1][1] = table[1][1] * 0.5 + table[0][1]
        return table[0][0], table[1][1], table[0][1]

    @program(None)
    def one_list_in_two_places(x):
        row = [x[0], x[1]]
        table = [row, row]
        for _ in range(12):
            table[0][0] = table[0][0] * 0.9 + table[1][1]
            row[1] = row[1] * 0.5
        return table[1][0], row[0], row[1], table[0] is table[1]

    @program(None)
    def a_key_is_added(x):
        table = {"y": x}
        for i in range(9):
            table["y"] = table["y"] * 0.9
            table["last"] = i
        return table["y"], table["last"], len(table)

    @program(None)
    def at_an_index_that_moves(x):
        levels = [0.0] * 12
        for i in range(1, 12):
            levels[i] = 0.5 * levels[i - 1] + x[i]
        return levels[3], levels[11]

    @program(None)
    def an_object_goes_from_key_to_key(x):
        table = {"old": State(x, x), "new": State(x * 0.5, x)}
        for _ in range(9):
            table["old"] = table["new"]
            table["new"] = table["new"].step(x)
        return table["old"].place, table["new"].time

    @program(True)
    def objects_in_a_list(x):
        bodies = [Slots(x), Slots(x * 0.5)]
        for _ in range(15):
            bodies[0], bodies[1] = bodies[0].next(), bodies[1].next()
        return bodies[0].level, bodies[1].n

    @program(None)
    def a_dict_and_what_it_holds(x):
        state = {"y": x * 1.0}
        y = state["y"]
        for _ in range(9):
            state["y"] = state["y"] * 0.9
            y[0] = y[0] + 1.0
        return state["y"], y

    @program(None)
    def where_a_branch_is_taken(x):
        best = {"y": x * 1.0, "score": -1.0}
        for i in range(12):
            if x[i] > best["score"]:
                best = {"y": best["y"] * 0.9, "score": x[i]}
        return best["y"], best["score"]

    @program(None)
    def a_branch_stores(x):
        best = {"at": 0, "score": -1.0}
        for i in range(12):
            if x[11 - i] > best["score"]:
                best["at"], best["score"] = i, x[11 - i]
        return best["at"], best["score"]

    @program(True)
    def a_while_loop(x):
        state = State(x, x * 0.1)
        while state.place[0] > 0.1:
            state = State(state.place * 0.9, state.speed, state.time, state.steps + 1)
        return state.numbers()

    @program(True)
    def an_object_is_left_as_it_was(x):
        simulation = Simulation(x)
        first = simulation.state
        simulation.run(9)
        return (*dataclasses.astuple(first)[2:4], first.place, simulation.state.time)


class Iterated:
    """Arrays and lists that a loop goes through have no name in it, or another one."""

    @program(True)
    def one_array_and_numbers(x):
        y = x
        for i, (a, b) in enumerate(zip([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], x)):  # noqa: B905
            y = y * a + b * i
        return y

    @program(True)
    def the_name_of_the_array_is_bound_anew(x):
        y, other = x * 1.0, x
        for q in y:
            y, other = other * 0.9 + q, y * 0.5
        return y, other

    @program(True)
    def an_attribute_starts_with_the_array(x):
        one = SimpleNamespace(y=x)
        for q in x:
            one.y = one.y * 0.9 + q
        return one.y

    @program(True)
    def rows_of_an_inner_loop(x):
        y = x
        for p in x:
            for q in x:
                y = y * 0.9 + p * q
        return y

    @program(None)
    def a_view_is_written_that_the_loop_goes_through(x):
        y = x * 1.0
        for i, q in zip(range(11), y[:-1]):  # noqa: B905
            y[i + 1] = y[i + 1] * 0.9 + q
        return y

    @program(None)
    def a_plain_array_is_written_by_another_name(x):
        numbers, y = np.arange(8.0), x * 1.0
        other = numbers[:]
        for q in numbers:
            other[-1] = other[-1] + 1
            y = y * 0.9 + q
        return y, numbers

    @program(False)
    def a_list_is_written(x):
        numbers, y = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], x * 1.0
        for r in reversed(numbers):
            y = y * r + 0.1
            numbers[0] = numbers[0] + 1
        for i, r in enumerate(numbers):
            y = y * r + 0.1 * i
            numbers[-1] = y[0]
        return y, numbers[0], numbers[-1]

    @program(False)
    def a_list_grows_and_shrinks(x):
        numbers, y = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], x * 1.0
        for i, r in zip(range(15), numbers):  # noqa: B905
            y = y * r + 0.1 * i
            numbers.append(0.5)
        for i, r in enumerate(numbers):
            y = y * r + 0.1 * i
            numbers.pop()
        n = len(numbers)
        for r in reversed(numbers):
            y = y * r + 0.1
            numbers.pop(0)
        return y, n, len(numbers)

    @program(None)
    def a_list_is_written_where_a_loop_is_left(x):
        numbers, y = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6] * 4, x * 1.0
        for i, r in enumerate(numbers):
            y = y * 0.9 + r * 0.1
            if y[0] < 0.3:
                numbers[i + 1 : i + 3] = [0.7, 0.8]
                y = y + 0.5
        return y, i, numbers[-1]


class NumbersThatChangeTheirType:
    @program(True)
    def one_that_depends_on_one_of_the_data(x):
        s, t, y = np.float64(0.0), np.float64(0.0), x[0] * 0.0
        for i in range(12):
            t = t + s * 0.5
            y = y + t * x[i]
            s = x[i]
        return y + t

    @program(True)
    def one_that_divides_until_a_condition_holds(x):
        y, n = x * 1.0, 0
        while y[0] > 0.05:
            n += 1
            y = y - 0.2 / n * y
        return y, n

    @program(None)
    def a_power_where_iterations_branch(x):
        y = x * 1.0
        for i in range(40):
            y = y * 0.9 if y[0] > 0.5 else y * 1.2
            y = y + 2 ** (10 - i) * 1e-3
        return y

    @program(None)
    def a_root(x):
        y = x * 1.0
        for i in range(12):
            y = y * 0.9 + abs((5.5 - i) ** 0.5)
        return y

    @program(True)
    def a_quotient_of_two_indices(x):
        a = np.zeros((12, 12))
        for i in range(12):
            for j in range(12):
                a[i, j] = x[i] * (1 / (i + j + 1))
        return a


class TuplesAreKept:
    @program(True)
    def in_lists_and_names(x):
        orbit = Orbit(x, x * 0.1)
        after, records = [], []
        for _ in range(9):
            orbit = Orbit(orbit.place * 0.9, orbit.speed + orbit.place)
            after.append(orbit)
            records.append({"orbit": orbit})
        same = after[-1] is orbit, records[-1]["orbit"] is orbit, after[0] is orbit
        return orbit.place, after[3].speed, sum(same)

    @program(True)
    def with_numbers(x):
        first = pair = (x, 0)
        pairs = []
        for _ in range(9):
            pairs.append(pair)
            pair = pair[0] * 0.9, pair[1] + 1
        return pair[0], pair[1], pairs[0] is first, pairs[1] is first, pairs[8][1]

    @program(True)
    def that_are_constant(x):
        y, pair, pairs = x, (1, 2.5), []
        for _ in range(9):
            y = y * 0.9
            pairs.append(pair)
            pairs.append((y, pair))
        return y, pairs[2] is pair, pairs[4] is pair, pairs[5][1] is pair, pairs[7][0]


class ModesThatIterationsSwitch:
    @program(None, 1.3 * X)
    def by_tests_with_one_outcome(x):
        state = {"mode": "up", "y": x}
        for _ in range(30):
            if state["mode"] == "up":
                state["y"] = state["y"] * 1.2
                if state["y"][0] > 2:
                    state["mode"] = "down"
            else:
                state["y"] = state["y"] * 0.7
                if state["y"][0] < 0.5:
                    state["mode"] = "up"
        return state["y"]

    @program(None, 1.3 * X)
    def while_a_condition_holds(x):
        state, steps = {"mode": "up", "y": x}, 0
        while np.sum(state["y"]) + steps < 60:
            steps += 1
            if state["mode"] == "up":
                state["y"] = state["y"] * 1.2
                if state["y"][0] > 2:
                    state["mode"] = "down"
            else:
                state["y"] = state["y"] * 0.7
                if not state["y"][0] > 0.5:
                    state["mode"] = "up"
        return state["y"]
