"""Type variables and classes of arguments, for the annotations of public functions.

A gradient has the type of its argument where types can say so: for arrays of floats, dataclasses,
dicts, and lists and tuples of those (`Structure`). A list of numbers counts as an array
(`NumberList`), and an int as a float. Elsewhere annotations say Any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T", bound=Any)  # so bound, pyright lets a lambda compute with a T
G = TypeVar("G")


class Dataclass(Protocol):
    """An object of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Structure = (
    np.ndarray[Any, np.dtype[np.inexact[Any]]]
    | Dataclass
    | Mapping[Any, Any]
    | Sequence["Structure"]
)
NumberList = list[int] | list[float] | list[list[int]] | list[list[float]]
FloatArray = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
AnyArray = np.ndarray[tuple[Any, ...], np.dtype[Any]]
X = TypeVar("X", bound=float | AnyArray)
Y = TypeVar("Y", bound=float | AnyArray)
Z = TypeVar("Z", bound=float | AnyArray)
V = TypeVar("V", bound=AnyArray)
A = TypeVar("A", bound=Structure)
B = TypeVar("B", bound=Structure)
C = TypeVar("C", bound=Structure)


class AnyCallable(Protocol):
    """What can be called. As a bound, `Callable[..., Any]` would make pyright infer the calls that
    are arguments, `jit(value_and_grad(f))`, from its Any."""

    @property
    def __call__(self) -> Any: ...


F = TypeVar("F", bound=AnyCallable)
F_co = TypeVar("F_co", bound=AnyCallable, covariant=True)


class ArrayFunction(Protocol[P]):
    """A function that returns an array."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AnyArray: ...
