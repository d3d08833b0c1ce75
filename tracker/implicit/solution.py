"""Solutions of equations as functions of what the equations depend on, by the implicit function
theorem. Start at `implicit_solution`.

Where F(x, p) = 0 defines x, dx/dp = -A^-1 dF/dp with A = dF/dx. Some solver has found x, in
whatever way. It becomes a value whose operands are the tracked values p that F uses, be they
arguments or captured: a run of F in a `StopGradient` scope lists them, as for `checkpoint`. Its
pullback is g -> -(dF/dp)^H A^-H g, its pushforward t -> -A^-1 dF/dp t.

Higher derivatives: the rule runs F at the recorded solution, which an outer derivative follows.
Systems with A are solved by NumPy (`dense`), whose solutions are differentiable, or iteratively,
and are then themselves implicit solutions of linear equations.

Invariants
1. The value is the solver's. Derivatives are those one Newton step closer to the solution, so that
   they are as exact as the solver's result even where a second derivative is large.
2. A singular A is an error, never a large number: with `dense` by the condition number after
   scaling rows and columns, else by the residual of the iteration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracker.autodiff.boundary import LiftedArguments, run_lifted
from tracker.autodiff.call_ops import call_op, detach, record_outputs
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.forward import forward_sweep
from tracker.autodiff.leaves import plain_data
from tracker.autodiff.pullbacks import linearize
from tracker.autodiff.reverse import reverse_sweep
from tracker.errors import RuleError, UnsupportedError
from tracker.implicit import krylov
from tracker.implicit.restorable_state import RestorableState
from tracker.tape.live_leaves import counted_as_live, is_history_needed
from tracker.tape.record import value_of
from tracker.tape.tracing.tracer import StopGradient
from tracker.tape.tracked import Tracked
from tracker.tape.value import Value
from tracker.transforms.jacobians import jacobian

Function = Callable[..., Any]
DENSE_SIZE = 200  # unknowns; up to here a matrix costs less than the products of an iteration


class Equation:
    """residual(x) = 0, an equation in an array x or a number.

    method  of solving systems with A = dresidual/dx: "dense", "cg" (for minima) or "gmres"
    name    of what has found x, for errors
    """

    def __init__(self, residual: Function, method: str, name: str) -> None:
        self.residual, self.method, self.name = residual, method, name

    def solve(self, x: Any, b: Any, adjoint: bool = False) -> Any:
        """A^-1 b, or with `adjoint` A^-H b, with A at x; differentiable."""
        if self.method == "dense":
            (a,) = jacobian(self.residual, x)
            a = np.reshape(a, (np.size(x), np.size(x)))
            a = np.conj(np.transpose(a)) if adjoint else a
            with self.singular_is_an_error():
                return np.reshape(np.linalg.solve(a, np.reshape(b, (-1,))), np.shape(x))
        _, pull, push = linearize(self.residual, (x,), {})
        return self._iterate((lambda v: pull(v)[0]) if adjoint else push, b)

    def _iterate(self, product: Function, b: Any) -> Any:
        """The solution of a linear system of which there are products."""
        solver = krylov.cg if self.method == "cg" else krylov.gmres
        with StopGradient():
            given, rtol, limit = detach(b), krylov.default_tolerance(b), 10 * np.size(b) + 100
            found = solver(lambda v: detach(product(v)), given, rtol, limit)
            rest = np.linalg.norm(given - detach(product(found)))
            scale = np.linalg.norm(given)
            if not bool(rest <= 10 * rtol * scale):
                share = float(plain_data(rest / scale))
                raise self.singular(f"{self.method} left {share:.1g} of the right side")
        linear = Equation(lambda x: product(x) - b, self.method, self.name)
        return linear.record(found)

    def record(self, x: Any) -> Any:
        """x as the solution: with the derivatives that it has by the residual's."""
        with StopGradient() as cut:
            self.rest = plain_data(self.residual(x))
        operands = list(cut.outer_values)
        if not operands:
            return x
        self.state = RestorableState(self.residual)
        params = {"equation": self, "operands": operands}
        return record_outputs(_solution_op, params, operands, [x])[0]

    def lifted_residual(self, y: Any, operands: list[Value]) -> tuple[LiftedArguments, Value]:
        """The residual at the solution, run again: as a function of a new leaf and the operands."""
        with counted_as_live(operands):
            lifted, r = run_lifted(self.residual, (y,), {})
        if not self._has_same_rest(y, plain_data(r)):
            raise RuleError(
                f"the function that {self.name} solved gave another value when it was run again "
                "for a derivative",
                "Let it change nothing that it reads, and draw no random numbers",
            )
        return lifted, value_of(r)

    def _has_same_rest(self, y: Any, rest: Any) -> bool:
        """Whether what is left of the residual would move the solution by rounding only."""
        if np.array_equal(rest, self.rest, equal_nan=True):
            return True
        step = plain_data(self.newton_step(plain_data(y), rest - self.rest))
        limit = np.sqrt(np.finfo(step.dtype).eps) * (1 + _size(plain_data(y)))
        return bool(_size(step) <= limit)

    def newton_step(self, x: Any, r: Any) -> Any:
        """A^-1 r, at plain numbers; raises where A is singular to working precision."""
        if self.method != "dense":
            return detach(self.solve(x, r))
        (a,) = jacobian(self.residual, x)  # not in a `StopGradient` scope, where no row is mapped
        a = np.reshape(detach(a), (np.size(x), np.size(x)))
        rows = _scales(a, axis=1)
        columns = _scales(a / rows[:, None], axis=0)
        scaled = a / rows[:, None] / columns
        with self.singular_is_an_error():
            inverse = np.linalg.inv(scaled)
        condition = _norm(scaled) * _norm(inverse)
        if bool(condition * np.finfo(condition.dtype).eps > 1):
            raise self.singular(f"condition number {float(plain_data(condition)):.0e}")
        return np.reshape(inverse @ (np.reshape(r, (-1,)) / rows) / columns, np.shape(x))

    @contextlib.contextmanager
    def singular_is_an_error(self) -> Iterator[None]:
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise self.singular("exactly") from error

    def singular(self, how: str) -> UnsupportedError:
        text = (
            f"the solution that {self.name} found has a singular Jacobian ({how}), so it is no "
            "differentiable function of the parameters"
        )
        return UnsupportedError(text, "Use tracker.data on them where no gradient is wanted")


def _scales(a: Any, axis: int) -> Any:
    """The largest number in each row or column; 1 where there are only zeros."""
    most = np.max(np.abs(a), axis=axis)
    return np.where(most > 0, most, 1.0)


def _norm(a: Any) -> Any:
    return np.max(np.sum(np.abs(a), axis=0))


def _pull(
    g: Any,
    y: Any,
    xs: list[Any],
    wanted: Any,
    times: Any,
    *,
    equation: Equation,
    operands: list[Value],
) -> list[Any]:
    y = _with_needed_history(y)
    with equation.state.restored():
        seed = -equation.solve(y, g, adjoint=True)
        lifted, r = equation.lifted_residual(y, operands)
    return reverse_sweep([(r, seed)], operands, lifted.epoch, times=times)


def _push(
    ts: list[Any], y: Any, xs: list[Any], times: Any, *, equation: Equation, operands: list[Value]
) -> Any:
    y = _with_needed_history(y)
    with equation.state.restored():
        lifted, r = equation.lifted_residual(y, operands)
        pairs = list(zip(operands, ts, strict=True))
        (t,) = forward_sweep(pairs, [r], lifted.epoch, times)
        return None if t is None else -equation.solve(y, t)


def _with_needed_history(y: Any) -> Any:
    """The solution as a rule lifts it to a leaf: plain, unless an outer derivative or a trace
    follows it."""
    return y if type(y) is Tracked and is_history_needed(value_of(y)) else plain_data(y)


def _evaluate(*_: Any, **__: Any) -> Any:
    raise AssertionError("a solution is recorded with its value")


_solution_op = call_op("implicit_solution", _pull, _push, _evaluate)


def implicit_solution(
    residual: Function, x: Any, name: str, method: str = "dense", tol: float | None = None
) -> Any:
    """The solution x of residual(x) = 0, which `name` found, as a function of what the residual
    depends on. Raises where a Newton step is larger than `tol`, relative to 1 + |x|."""
    equation, x = Equation(residual, method, name), detach(x)
    with StopGradient() as cut:
        r = detach(residual(x))
    if not cut.outer_values:
        return x
    step = equation.newton_step(x, r)
    if tol is not None and not bool(_size(step) <= tol * (1 + _size(x))):
        raise _not_a_solution(name, _size(r), _size(step))
    return with_derivatives_of(x, equation.record(x - step))


def _size(x: Any) -> Any:
    return np.max(np.abs(x), initial=0.0)


def _not_a_solution(name: str, r: Any, step: Any) -> RuleError:
    r, step = float(plain_data(r)), float(plain_data(step))
    text = (
        f"what {name} returned does not satisfy its condition: the residual is {r:.2g}, and a "
        f"Newton step moves it by {step:.2g}, so that its derivative would be wrong"
    )
    return RuleError(text, "Let it go on until it has converged")


@custom_gradient
def with_derivatives_of(x: Any, other: Any) -> tuple[Any, Function]:
    """The value of `x` with the derivatives of `other`."""
    return x, lambda dy: (None, dy)
