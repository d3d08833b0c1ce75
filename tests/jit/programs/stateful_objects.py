"""Objects that change at each step, of every kind: attributes, slots, records, classes' own."""

import dataclasses
from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

import numpy as np

import tracker as tr


class Adam:
    def __init__(self):
        self.m, self.v, self.count, self.lr = np.zeros(3), np.zeros(3), 0, 0.1

    def step(self, p, g):
        self.count += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.99 * self.v + 0.01 * g * g
        scale = np.sqrt(self.v / (1 - 0.99**self.count)) + 1e-8
        return p - self.lr * (self.m / (1 - 0.9**self.count)) / scale


class Slots:
    __slots__ = ("a", "n")

    def __init__(self):
        self.a, self.n = np.ones(3), 0

    def step(self, x):
        self.n += 1
        self.a = self.a * x[0] + self.n
        return self.a


class Behind:
    """A property, a hook of every assignment, names as text."""

    def __init__(self):
        self.__dict__.update(_a=np.ones(3), n=0, last=0.0, other=0)

    @property
    def a(self):
        return self._a

    @a.setter
    def a(self, x):
        self._a = x
        self.n += 1

    def __setattr__(self, name, x):
        object.__setattr__(self, name, x)
        object.__setattr__(self, "last", self.last + 1.0)

    def step(self, x):
        self.a = self.a * x
        setattr(self, "other", getattr(self, "other") + 2)  # noqa: B009, B010
        self.__dict__["made"] = x[0]
        return self.a + self.last


class Lent:
    """A class attribute that an instance attribute shadows once it is written."""

    on, n, w = False, 0, np.ones(3)

    def step(self, x):
        self.on, self.n = not self.on, self.n + 1
        self.w = self.w + x
        return self.w * 2 if self.on else self.w + self.n


@dataclasses.dataclass
class Record:
    x: float = 1.0
    v: object = dataclasses.field(default_factory=lambda: np.ones(3))

    def step(self, x):
        self.x += x[0]
        self.v = self.v * self.x
        return self.v


class Nested:
    def __init__(self):
        self.layers = [Slots(), Slots()]
        self.pair, self.named = (np.zeros(3), 1.0), {"m": np.zeros(3), "k": [1.0, 2]}
        self.window, self.rows = [0.0, 0.0, 0.0], [[1.0, 2.0], [np.ones(3)]]

    def step(self, x):
        for layer in self.layers:
            layer.step(x)
        a, b = self.pair
        self.pair = a + x, b * 2
        self.named = {"m": self.named["m"] + x, "k": [k + 1 for k in self.named["k"]]}
        self.rows[0][1] += x[0]
        self.rows[1][0] = self.rows[1][0] * x
        self.window.append(x[1])
        self.window.pop(0)
        return self.pair[0] * self.named["m"] + sum(self.window)


class Types:
    def __init__(self):
        self.f, self.c, self.z, self.h = np.float32(1), 1 + 2j, np.array(3.0), np.ones(2, "f4")

    def step(self, x):
        self.f = self.f * np.float32(1.5)
        self.c = self.c * 1j
        self.z = self.z + x[0]
        self.h = self.h[::-1] * self.f
        return self.z * x


class Trained:
    def __init__(self):
        self.w, self.b, self.steps, self.loss = np.ones(3), 0.5, 0, None

    def step(self, x):
        def loss(w, b):
            return (np.sum(x * w) + b - 1.0) ** 2

        self.loss, (gw, gb) = tr.withgradient(loss, self.w, self.b)
        self.w, self.b, self.steps = self.w - 0.01 * gw, self.b - 0.01 * gb, self.steps + 1
        return self.loss


class Buffered:
    """A place in a buffer moves on; now and then something else is done."""

    def __init__(self):
        self.buffer, self.at, self.best = np.zeros(4), 0, 0.0

    def step(self, x):
        self.buffer[self.at % 4] = x[0]
        self.at += 1
        if self.at % 3 == 0:
            self.best = np.max(self.buffer)
        return np.sum(self.buffer) + self.best


class Moved:
    """What was here stands there, and the other way round."""

    def __init__(self):
        self.a, self.b, self.old, self.new = np.ones(3), np.zeros(3), None, None

    def step(self, x):
        self.a, self.b = self.b, self.a
        self.a = self.a + x
        self.old, self.new = self.new, x
        return self.a - self.b


class Counted:
    """Containers of the standard library."""

    def __init__(self):
        self.sums, self.order = defaultdict(float), OrderedDict(a=1.0, v=np.zeros(3))
        self.last, self.queue = deque([0.0, 0.0], maxlen=2), deque([np.ones(3)])

    def step(self, x):
        self.sums["x"] += np.sum(x)
        self.sums["n"] += 1
        self.order["v"] = self.order["v"] + x
        self.order["z"] = x[0]
        self.last.append(x[1])
        self.queue.append(self.queue.popleft() * x)
        self.queue.append(x)
        self.queue.pop()
        return x * self.sums["n"] + sum(self.last) + self.queue[0]


class State(NamedTuple):
    x: object
    v: object
    n: int = 0


class Named:
    """A named tuple takes the place of another."""

    def __init__(self):
        self.state = State(np.zeros(3), np.ones(3))

    def step(self, x):
        self.state = self.state._replace(v=self.state.v + x)
        self.state = State(self.state.x + self.state.v, self.state.v, self.state.n + 1)
        return self.state.x * self.state.n


@dataclasses.dataclass(frozen=True)
class Body:
    x: object
    v: object
    spin: object = None
    n: int = 0

    @property
    def energy(self):
        return np.sum(self.v**2)


class Simulated:
    """A frozen dataclass takes the place of another, and of one inside of it."""

    def __init__(self):
        self.body, self.before = Body(np.zeros(3), np.ones(3), Body(np.ones(3), 1.0)), None

    def step(self, x):
        old = self.body
        v = old.v + 0.1 * x
        spin = dataclasses.replace(old.spin, x=old.spin.x * 1.1)
        self.before = old
        self.body = dataclasses.replace(old, x=old.x + 0.1 * v, v=v, spin=spin, n=old.n + 1)
        return self.body.x * self.body.n + self.body.energy * self.before.spin.x


@dataclasses.dataclass
class Pose:
    x: object
    v: object
    n: int = 0

    def moved(self, x):
        return Pose(self.x + 0.1 * self.v, self.v + x, self.n + 1)


class Posed:
    """A dataclass that can be changed takes the place of another, which goes elsewhere."""

    def __init__(self):
        self.pose, self.before = Pose(np.zeros(3), np.ones(3)), Pose(np.ones(3), np.ones(3))

    def step(self, x):
        self.before, self.pose = self.pose, self.pose.moved(x)
        self.pose.v = self.pose.v * 0.9
        return self.pose.x * self.pose.n + self.before.v


MACHINES = [
    *(Adam, Slots, Behind, Lent, Record, Nested, Types, Trained, Buffered, Moved, Counted),
    *(Named, Simulated, Posed),
]


def shown(machine):
    if isinstance(machine, (Body, Pose)):
        return vars(machine)
    if isinstance(machine, (list, tuple, deque)):
        return [shown(x) for x in machine]
    if isinstance(machine, dict):
        return {name: shown(x) for name, x in machine.items()}
    if type(machine) not in MACHINES:
        return machine
    names = getattr(machine, "__slots__", None) or vars(machine)
    return {name: shown(getattr(machine, name)) for name in names}
