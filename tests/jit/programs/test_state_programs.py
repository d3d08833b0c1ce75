"""Random methods that change what they read: results, state, identity and shared memory are those
of the plain function, whatever else happens to the object between the calls."""

import warnings
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from side_by_side import assert_alike, leaves

from tracker import jit

STATEMENTS = """
self.a = self.a * 0.7 + np.sum(x)
self.n += 1
self.n = self.n * 2 % 7
self.c = self.c + x
self.c += x
self.c[0] = self.a
self.c = self.d
self.d = x
self.d = self.c[::-1]
self.d = self.c * self.a
self.c, self.d = self.d, self.c
self.list[0] = self.a
self.list[1] = self.c
self.list = [self.a, self.d]
self.list[1] *= 0.5
self.list.append(self.a)
if len(self.list) > 2: self.list.pop()
self.pair = (self.c, self.n)
self.c = self.pair[0]
self.pair = (self.pair[0], self.pair[1] + 1)
self.dict["x"] = self.a
self.dict["y"] = self.c
self.dict = {"x": self.a, "y": self.d}
self.dict["z"] = self.n
self.dict.pop("z", None)
if self.a > 3: self.a = 0.0
if self.n % 3 == 0: self.c = x * 1.0
if self.a > 2.5: raise ValueError("big")
self.on = not self.on
if self.on: self.a += 1
self.new = self.c
self.made = self.a
self.alias = self.list
self.part.w = self.part.w + x
self.part.n += 1
self.part, self.other = self.other, self.part
self.c = self.part.w
self.n = 3
self.d = np.zeros(3)
self.log.append(self.c)
total[0] += self.a
self.c = self.d = self.c * 2
self.d = x + 1; self.d += self.c
self.part.w = self.c[1:] * x[0]; self.part.w = np.append(self.part.w, 1.0)
self.row = x[:2]
self.row = self.c[1:]
self.sums["x"] += self.a
self.sums["y"] = self.c
self.sums["x"] = self.sums["z"] + x[0]
self.sums.pop("x", None)
self.order["x"] = self.c
self.order["y"] = self.order["x"] * self.a
self.order.pop("y", None)
self.order.move_to_end("x")
self.queue.append(self.a)
self.queue.append(self.c)
self.a = np.sum(self.queue.popleft())
self.queue.appendleft(self.a); self.queue.rotate(1)
self.recent.append(self.a)
self.c = self.c + self.recent[0]
self.rec = Rec(self.c, self.n)
self.rec = replace(self.rec, x=self.rec.x + x)
self.rec = Rec(self.rec.x * self.a, self.rec.n + 1, self.rec)
self.rec.x = self.c
self.rec.n += 1
self.rec.x += x
self.c = self.rec.x
self.last = self.rec
self.rec, self.last = self.last, self.rec
self.last = Rec(self.d, 0, self.rec)
self.last.x = self.last.x * 0.5 + x
self.last.n += 1
self.rec.within = Rec(x, self.n)
self.a = self.rec.total() + self.a
if self.rec.within is not None: self.rec = self.rec.within
self.list[0] = self.rec
self.fixed = Fixed(self.c, self.rec)
self.c = self.fixed.x * 1.5
self.fixed = replace(self.fixed, x=x)
""".strip().split("\n")
RESULTS = [
    "self.rec",
    "(self.rec, self.last)",
    "self.rec.x",
    "self.c",
    "self.a",
    "(self.c, self.d)",
    "x * self.a",
    "{'c': self.c, 'n': self.n}",
    "x",
]


@dataclass
class Rec:
    x: object
    n: int
    within: object = None

    def total(self):
        return np.sum(self.x) * self.n


@dataclass(frozen=True)
class Fixed:
    x: object
    rec: object


class Part:
    def __init__(self):
        self.w, self.n = np.ones(3), 0


class State:
    def __init__(self):
        self.a, self.n, self.c, self.d, self.on = 1.0, 1, np.ones(3), np.arange(3.0), False
        self.list, self.pair = [0.5, np.ones(3)], (np.zeros(3), 2)
        self.dict, self.log = {"x": 1.0, "y": np.ones(3)}, []
        self.part, self.other = Part(), Part()
        self.sums, self.order = defaultdict(float), OrderedDict(x=np.ones(3), y=2.0)
        self.queue, self.recent = deque([0.5, np.ones(3)]), deque([1.0, 2.0], maxlen=2)
        self.rec, self.last = Rec(np.ones(3), 1), Rec(np.zeros(3), 2)
        self.fixed = Fixed(np.ones(3), None)


def _set(name, make):
    return lambda s, result, x: setattr(s, name, make(s))


def _moved(s, result, x):
    for array in (s.c, x, result):
        if isinstance(array, np.ndarray) and array.flags.writeable:
            array[-1] += 1


ACTIONS = [
    *[lambda s, result, x: None] * 4,
    _moved,
    _set("a", lambda s: 5.0),
    _set("n", lambda s: 4),
    _set("c", lambda s: np.ones(3)),
    _set("d", lambda s: s.c),
    _set("list", lambda s: [1.0, s.c]),
    _set("dict", lambda s: {"x": 2.0, "y": np.ones(3)}),
    _set("part", lambda s: Part()),
    _set("rec", lambda s: Rec(np.full(3, 2.0), 3)),
    _set("rec", lambda s: s.last),
    lambda s, result, x: setattr(s.rec, "x", s.c),
    lambda s, result, x: setattr(s.rec, "n", 5),
    lambda s, result, x: setattr(s.last, "x", np.ones(3)),
    _set("queue", lambda s: deque([s.c, 0.25])),
    lambda s, result, x: s.order.move_to_end("x") if "x" in s.order else None,
]


def _made(source):
    namespace = {"np": np, "total": [0.0], "Rec": Rec, "Fixed": Fixed, "replace": replace}
    exec(source, namespace)
    return namespace["step"], namespace["total"]


@given(
    body=st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6),
    result=st.sampled_from(RESULTS),
    actions=st.lists(st.sampled_from(range(len(ACTIONS))), min_size=8, max_size=12),
    seed=st.integers(0, 1000),
)
def test_random_methods(body, result, actions, seed):
    source = "\n    ".join(["def step(self, x):", *body, f"return {result}"])
    plain, total = _made(source)
    other, jitted_total = _made(source)
    fast, one, two = jit(other), State(), State()
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for action in actions:
            x = np.round(rng.uniform(-1, 1, 3), 2)
            found = []
            for f, s, sums in ((plain, one, total), (fast, two, jitted_total)):
                given_ = x.copy()
                try:
                    value = f(s, given_)
                except (ValueError, IndexError, KeyError, AttributeError) as error:
                    value = type(error).__name__
                found.append(leaves((s, value, given_, sums), "given"))
            assert_alike(found[1], found[0], 1e-9)
            for s, each in ((one, found[0]), (two, found[1])):
                ACTIONS[action](s, each.get("given.1"), each["given.2"])
