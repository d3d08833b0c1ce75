"""Control flow, rules, solvers and optimisers have the types of the functions given to them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import tracker
from tracker import cond, fori_loop, jit, scan, switch, while_loop

Array = NDArray[np.float64]
Carry = tuple[Array, float]


def halved(x: Array) -> Array:
    return x / 2.0


def negated(x: Array) -> Array:
    return -x


def iteration(i: int, carry: Carry) -> Carry:
    return carry[0] * 0.5, carry[1] + i


def next_carry(carry: Carry) -> Carry:
    return iteration(1, carry)


def step(carry: Carry, x: float) -> tuple[Carry, float]:
    return (carry[0] * x, carry[1] + x), carry[1]


def is_short(carry: Carry) -> bool:
    return carry[1] < 3.0


@jit
def squares(x: Array) -> np.float64:
    return np.float64(np.sum(x**2))


def control(x: Array) -> None:
    assert_type(cond(True, halved, negated, x), Array)
    assert_type(switch(1, [halved, negated], x), Array)
    assert_type(fori_loop(0, 3, iteration, (x, 0.0)), Carry)
    assert_type(fori_loop(0, 3, iteration, (np.ones(2), 0.0)), Carry)
    assert_type(while_loop(is_short, next_carry, (x, 0.0)), Carry)
    assert_type(scan(step, (x, 0.0), x), tuple[Carry, Any])


def values(x: Array) -> None:
    w = np.zeros(2)
    assert_type(tracker.update(x.copy(), 1.0), Array)
    assert_type(tracker.data(x), Array)
    assert_type(tracker.hook(lambda g: g, x), Array)
    assert_type(tracker.showgrad(x), Array)
    assert_type(tracker.nobacksies("f", x), Array)
    assert_type(tracker.forwarddiff(squares, x), np.float64)
    tracker.gradient(lambda a: np.sum(tracker.hook(lambda g: -g, a) * w), x)


def structures(x: Array) -> None:
    vector, back = tracker.tree.ravel({"w": x})
    assert_type(vector, NDArray[Any])
    assert_type(back(vector), dict[str, Array])
    assert_type(tracker.tree.ravel([1.0, 2.0])[1](vector), NDArray[Any])


def optimisers(x: Array) -> None:
    init, update = tracker.optim.adam(0.1)
    params = {"w": x}
    params, state = update(params, {"w": x}, init(params))
    assert_type(params, dict[str, Array])
    assert_type(state.step, int)
    assert_type(update([1.0, 2.0], x, init([1.0, 2.0]))[0], Array)


def implicit(x: Array) -> None:
    def roots(a: Array) -> Array:
        return np.sqrt(a)

    solver = tracker.implicit.root(lambda r, a: r**2 - a, roots)
    assert_type(solver(x), Array)


def shards(x: Array) -> None:
    def loss(w: Array, shard: Array) -> np.float64:
        return np.float64(np.sum((w - shard) ** 2))

    with ThreadPoolExecutor(1) as pool:
        derivative = tracker.distributed.value_and_grad(loss, [x, x], pool)
        assert_type(derivative(x)[1], Array)
        assert_type(derivative.hvp(x, x), Array)


def sparse(x: Array) -> None:
    assert_type(tracker.sparse.jacobian(halved, x).colours, NDArray[np.intp])


def layers(x: Array, rng: np.random.Generator) -> None:
    images = x.reshape(1, 1, 1, 2)
    assert_type(tracker.nn.conv(images, images), NDArray[Any])
    assert_type(tracker.nn.maxpool(images, (1, 2)), NDArray[Any])
    assert_type(tracker.nn.dropout(x, 0.5, rng=rng), NDArray[Any])
    assert_type(tracker.debug.explain(squares, x), str)
