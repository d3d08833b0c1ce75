"""The types of jitted functions, for annotations: the objects themselves are native callables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    overload,
    runtime_checkable,
)

from tracker.support.type_variables import P, R_co

if TYPE_CHECKING:
    from tracker.ir.graph import Function
    from tracker.jit.api import CacheInfo
    from tracker.jit.profile import Profile

_Self = TypeVar("_Self")
_Rest = ParamSpec("_Rest")
_Result = TypeVar("_Result")


@runtime_checkable
class Jitted(Protocol[P, R_co]):
    """A function that `tracker.jit` has compiled: called as the plain one, with these methods.

    Those of a compiled method take its object, too: `Model.step.explain(model, x)`.

    >>> def twice(f: tracker.Jitted[[float], float], x: float) -> float:
    ...     return f(f(x))
    >>> twice(jit(lambda x: x * x), 3.0)
    81.0
    """

    @property
    def __name__(self) -> str: ...
    @property
    def __wrapped__(self) -> Any: ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Jitted[P, R_co]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[_Self, _Rest], _Result], instance: _Self, owner: Any = None
    ) -> Callable[_Rest, _Result]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    def ir(self, *args: Any, pullback: bool = False, **kwargs: Any) -> Function:
        """The IR after all passes; with `pullback`, that of value and gradient."""

    def llvm(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The optimised LLVM IR."""

    def asm(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The assembly."""

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """What runs for these arguments: kernels, host calls, guards, times of compilation."""

    def profile(self, *args: P.args, **kwargs: P.kwargs) -> Profile:
        """How long each kernel takes for these arguments, with the user's lines."""

    def cache_info(self) -> CacheInfo:
        """How many traces there are, and how many calls no machine code served."""

    def clear_cache(self) -> None:
        """Drop all traces."""


class JitKeywords(TypedDict, total=False):
    """The keywords of `jit`."""

    static: int | str | Iterable[int | str]
    cache: bool | None
    strict: bool
    max_traces: int
    pure: Iterable[Any]
    static_argnums: int | Iterable[int]
    static_argnames: str | Iterable[str]
