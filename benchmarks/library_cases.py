"""What `run.py` measures: `CASES`, name -> `Case`.

A case is a program written once over a `Library`, and the way in which it is measured. A program is
None for a library that cannot run it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
from libraries import Library


class Program(NamedTuple):
    f: Callable[..., Any]
    arguments: tuple[Any, ...]
    argnums: tuple[int, ...] | None = (0,)  # of the gradient; None: `f` returns it, too


class Case(NamedTuple):
    """`measure`: a function's name in `measure.py`. `size`: its place in plots. `parts`: what the
    time is divided by. `is_headline`: README shows it."""

    group: str
    measure: str
    program: Callable[[Library], Program | None]
    size: int | None = None
    parts: int = 1
    is_headline: bool = False


def _rng() -> numpy.random.Generator:
    return numpy.random.default_rng(0)


def rosenbrock(n: int, d: Library) -> Program:
    def f(x: Any) -> Any:
        return d.np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return Program(f, (_rng().random(n),))


def tanh_exp(n: int, d: Library) -> Program:
    def f(x: Any, w: Any, b: Any) -> Any:
        return d.np.sum(d.np.tanh(x * w + b) * d.np.exp(-(x**2)))

    return Program(f, (_rng().standard_normal(n), _rng().random(n), _rng().random(n)), (0, 1, 2))


def diffusion(n: int, d: Library) -> Program:
    """The bending of a field on n x n places, by differences of neighbours."""

    def f(u: Any) -> Any:
        across = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
        return d.np.sum(across**2)

    return Program(f, (_rng().random((n, n)),))


def logistic(n: int, d: Library) -> Program:
    def f(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return d.np.mean(d.np.log(1.0 + d.np.exp(z)) - y * z)

    x = _rng().standard_normal((n, 50))
    return Program(f, (0.1 * _rng().standard_normal(50), x, (x[:, 0] > 0.0).astype(float)))


def training_step(batch: int, d: Library) -> Program:
    """Loss, gradient and new parameters of a network of 64, 128 and 10."""

    def loss(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> Any:
        z = d.np.tanh(x @ w1 + b1) @ w2 + b2
        return -d.np.mean(d.np.sum(y * z, 1) - d.np.log(d.np.sum(d.np.exp(z), 1)))

    def step(*arguments: Any) -> Any:
        value, slopes = d.value_and_grad(loss, (0, 1, 2, 3))(*arguments)
        return value, tuple(p - 0.01 * g for p, g in zip(arguments[:4], slopes, strict=True))

    r = _rng()
    weights = [0.1 * r.standard_normal(shape) for shape in ((64, 128), 128, (128, 10), 10)]
    data = r.standard_normal((batch, 64)), numpy.eye(10)[numpy.arange(batch) % 10]
    return Program(loss if d.name == "numpy" else step, (*weights, *data), None)


def recurrent(n: int, how: str, d: Library) -> Program:
    """n steps of a recurrent network with four numbers of state. jax's users write `lax.scan`."""
    np = d.np

    def step(w: Any, h: Any, x: Any) -> Any:
        return np.tanh(w @ h + x)

    def loop(w: Any, xs: Any) -> Any:
        h = xs[0]
        for x in xs:
            h = step(w, h, x)
        return np.sum(h)

    def kept(w: Any, xs: Any) -> Any:
        h, states = xs[0], []
        for i in range(n):
            h = step(w, h, xs[i])
            states.append(h)
        return np.sum(np.stack(states) ** 2)

    def scan(w: Any, xs: Any) -> Any:
        if d.name == "tracker":
            import tracker

            return np.sum(tracker.scan(lambda h, x: (step(w, h, x), None), xs[0], xs)[0])
        return np.sum(d.scan(lambda h, x: (step(w, h, x), None), xs[0], (xs,))[0])

    def kept_scan(w: Any, xs: Any) -> Any:
        states = d.scan(lambda h, x: (step(w, h, x),) * 2, xs[0], (xs,))[1]
        return np.sum(states**2)

    keeps = how == "Python loop that keeps its states"
    if d.name == "jax":
        f = kept_scan if keeps else scan
    else:
        f = scan if how == "scan" else kept if keeps else loop
    return Program(f, (0.5 * numpy.eye(4), _rng().standard_normal((n, 4))))


def ode(method: str, d: Library) -> Program | None:
    """An epidemic in its two rates, over 60 days."""
    times, start, tight = (
        numpy.linspace(0.0, 60.0, 20),
        [0.99, 0.01, 0.0],
        {"rtol": 1e-8, "atol": 1e-8},
    )

    def sir(t: Any, y: Any, infection: Any, recovery: Any) -> Any:
        s, i, _ = y
        new, recovered = infection * s * i, recovery * i
        return [-new, new - recovered, recovered]

    def of_jax(*rates: Any) -> Any:
        from jax.experimental.ode import odeint

        y = odeint(lambda y, t: d.np.stack(sir(t, y, *rates)), d.np.array(start), times, **tight)
        return d.np.sum(y[:, 1] ** 2)

    def of_scipy(*rates: Any) -> Any:
        if d.name == "numpy":
            from scipy import integrate
        else:
            from tracker.scipy import integrate
        if method == "odeint":
            return numpy.sum(
                integrate.odeint(sir, start, times, rates, tfirst=True, **tight)[:, 1] ** 2
            )
        given = {"method": method, "t_eval": times, **tight}
        found = integrate.solve_ivp(lambda t, y: sir(t, y, *rates), (0.0, 60.0), start, **given)
        return numpy.sum(found.y[1] ** 2)

    if d.name in ("numpy", "tracker"):
        return Program(of_scipy, (0.4, 0.1), (0, 1))
    return Program(of_jax, (0.4, 0.1), (0, 1)) if (d.name, method) == ("jax", "odeint") else None


def chain(n: int, start: Any, d: Library) -> Program:
    """n dependent elementwise operations, a multiple of six."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(n // 6):
            y = d.np.sin(y)
            y = y * 1.1
            y = y + 0.3
            y = y * -0.5
            y = d.np.exp(y)
            y = d.np.tanh(y)
        return d.np.sum(y)

    return Program(f, (start,))


def products(n: int, d: Library) -> Program:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = x * 1.0000001
        return x

    return Program(f, (1.0,))


def irregular(n: int, d: Library) -> Program:
    """n scalar operations of which no two iterations are alike, so that each is traced."""
    numbers = _rng().integers(0, 3, n // 4)

    def f(x: Any) -> Any:
        y = x
        for i, kind in enumerate(numbers.tolist()):
            y = (d.np.sin(y), d.np.tanh(y), d.np.exp(-y * y))[kind] * 1.01 + x
            y = y - 0.1 * i
        return y

    return Program(f, (0.3,))


def power(d: Library) -> Program:
    return Program(lambda x: x**3, (0.7,))


def nothing(d: Library) -> Program:
    """For what is measured without a program."""
    return Program(lambda: 0.0, (), None)


def _case(
    group: str,
    measure: str,
    program: Callable[..., Any],
    *given: Any,
    size: int | None = None,
    parts: int = 1,
    is_headline: bool = False,
) -> Case:
    of = functools.partial(program, *given)
    return Case(group, measure, of, size, parts, is_headline)


CASES: dict[str, Case] = {
    **{
        f"rosenbrock, n={n}": _case(
            "small calls" if n < 1000 else "arrays",
            "compiled",
            rosenbrock,
            n,
            size=n,
            is_headline=n in (10, 1000, 1_000_000),
        )
        for n in (2, 10, 100, 1000, 10_000, 100_000, 1_000_000)
    },
    **{
        f"tanh and exp of vectors, n={n}": _case(
            "arrays", "compiled", tanh_exp, n, size=n, is_headline=n in (1000, 1_000_000)
        )
        for n in (100, 1000, 10_000, 100_000, 1_000_000)
    },
    "differences of 1000 x 1000 places": _case("arrays", "compiled", diffusion, 1000),
    "logistic regression, 10000 x 50": _case("arrays", "compiled", logistic, 10_000),
    "training step of a network, batch of 64": _case(
        "network", "compiled", training_step, 64, is_headline=True
    ),
    **{
        f"{how}, {n} steps": _case(
            "loops over small arrays", "compiled", recurrent, n, how, is_headline=n == 1000
        )
        for how in ("Python loop", "Python loop that keeps its states", "scan")
        for n in (1000, 10_000)
    },
    **{
        f"differential equation, {method}": _case(
            "differential equations", "compiled", ode, method, is_headline=method == "odeint"
        )
        for method in ("RK45", "Radau", "odeint")
    },
    **{
        f"eager, an operation on {what}": _case(
            "eager", "eager", chain, 60, start, parts=60, is_headline=what != "1000 numbers"
        )
        for what, start in (
            ("a float", 0.3),
            ("10 numbers", _rng().random(10)),
            ("1000 numbers", _rng().random(1000)),
        )
    },
    "eager, an operation of 1,000,000": _case(
        "eager", "long_chain", products, 1_000_000, parts=1_000_000, is_headline=True
    ),
    **{
        f"first call, {n} operations": _case(
            "first calls", "first_call", irregular, n, size=n, is_headline=n in (100, 1000, 10_000)
        )
        for n in (100, 300, 1000, 3000, 10_000)
    },
    "first call at another length": _case("first calls", "another_length", tanh_exp, 1000),
    "first function of a process": _case("start", "first_function", power, is_headline=True),
    "import": _case("start", "import_time", nothing, is_headline=True),
}
