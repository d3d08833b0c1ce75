"""Butcher tableaus of SciPy's one-step methods, and of collocation at given nodes.

A step from y over h has the slopes K_s = f(t + c_s h, y + h sum_r a_sr K_r) and ends at
y + h sum_s b_s K_s; in between, at t + x h, the solution is y + h sum_s beta_s(x) K_s with the
polynomials beta_s(x) = sum_p P_sp x**(p+1).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.integrate

from tracker.errors import message
from tracker.support.structs import record, replace

EXPLICIT_METHODS = (scipy.integrate.RK23, scipy.integrate.RK45, scipy.integrate.DOP853)
IMPLICIT_METHODS = (scipy.integrate.Radau, scipy.integrate.BDF, scipy.integrate.LSODA)
_METHODS = {cls.__name__: cls for cls in (*EXPLICIT_METHODS, *IMPLICIT_METHODS)}
_RADAU_NODES = ((4 - 6**0.5) / 10, (4 + 6**0.5) / 10, 1.0)


def solver_class(method: Any) -> Any:
    """SciPy's class of a method that is given by its name or as a class."""
    if not isinstance(method, str):
        return method
    if method not in _METHODS:
        text = f"solve_ivp has no method {method!r}"
        raise ValueError(message(text, f"Use one of {', '.join(_METHODS)}"))
    return _METHODS[method]


@record(frozen=True)
class Tableau:
    """a, b, c, P as above; the slopes include that at the end of the step and those that only the
    polynomials need. `error`: rows of weights of error estimates; `order`: of the estimate."""

    a: Any
    b: Any
    c: Any
    P: Any
    error: Any = None
    order: int = 0

    @property
    def is_explicit(self) -> bool:
        return not np.any(np.triu(self.a))

    def without_interpolation(self) -> Tableau:
        """Only the slopes that a step and its error need."""
        count = np.shape(self.error)[1]
        return replace(self, a=self.a[:count], b=self.b[:count], c=self.c[:count])

    def weights_at(self, x: Any) -> Any:
        """beta_s(x): shape (*x.shape, number of slopes)."""
        powers = np.cumprod(np.stack([x] * np.shape(self.P)[1], axis=-1), axis=-1)
        return powers @ self.P.T


@functools.cache
def explicit_tableau(method: Any) -> Tableau:
    """The tableau of RK23, RK45 or DOP853, from SciPy's class."""
    stages = method.n_stages
    a_extra = getattr(method, "A_EXTRA", np.zeros((0, stages + 1)))
    count = stages + 1 + len(a_extra)
    a = np.zeros((count, count))
    a[:stages, : method.A.shape[1]] = method.A
    a[stages, :stages] = method.B
    a[stages + 1 :, : a_extra.shape[1]] = a_extra
    b = np.append(method.B, np.zeros(count - stages))
    c = np.concatenate([method.C, [1.0], getattr(method, "C_EXTRA", ())])
    if method is scipy.integrate.DOP853:
        unit = np.eye(count)
        parts = np.stack([b, unit[0] - b, 2 * b - unit[stages] - unit[0], *method.D])
        P, error = parts.T @ _nested_products(len(parts)), np.stack([method.E5, method.E3])
    else:
        P, error = method.P, method.E[None]
    return Tableau(a, b, c, P, error, method.error_estimator_order)


def _nested_products(count: int) -> Any:
    """Coefficients of x, x**2, ... of x, x (1 - x), x (1 - x) x, ..., in rows."""
    rows = np.zeros((count, count))
    product = np.polynomial.Polynomial([1.0])
    for i in range(count):
        product = product * np.polynomial.Polynomial([0.0, 1.0] if i % 2 == 0 else [1.0, -1.0])
        rows[i, : i + 1] = product.coef[1:]
    return rows


@functools.cache
def collocation_tableau(nodes: tuple[float, ...]) -> Tableau:
    """The method whose polynomial satisfies the equation at these nodes of (0, 1]."""
    c = np.array(nodes)
    powers = np.arange(1, len(c) + 1)
    P = np.linalg.inv(np.vander(c, increasing=True)).T / powers
    return Tableau(c[:, None] ** powers @ P.T, P.sum(1), c, P)


def combination(weights: Any, slopes: list[Any]) -> Any:
    """The sum of the slopes with their weights, without those that are zero."""
    terms = [w * k for w, k in zip(weights.tolist(), slopes, strict=False) if w]
    return sum(terms[1:], terms[0])


def moved(f: Any, y: Any, at: Any, t: Any) -> Any:
    """The state at t of the solution that is y at the same time `at`: a step of no length, which
    has the derivatives of the solution in both times, up to the fifth."""
    tableau, h = explicit_tableau(scipy.integrate.RK45), t - at
    slopes = [f(at, y)]
    for row, c in zip(tableau.a[1:-1], tableau.c[1:-1], strict=True):
        slopes.append(f(at + c * h, y + h * combination(row, slopes)))
    return y + h * combination(tableau.b, slopes)


def tableau_of(method: type) -> Tableau:
    """The tableau that describes the steps of a SciPy solver. Those of methods of several steps,
    too, are described by collocation at Radau's nodes: as accurate, and as stable, as they are."""
    if method in EXPLICIT_METHODS:
        return explicit_tableau(method)
    return replace(collocation_tableau(_RADAU_NODES), order=3)
