"""The types of jitted functions, for annotations: the objects themselves are native callables.

`jit` gives a `JittedFunction[F]`, with F the type of the plain function; looked up on an object it
is a `JittedMethod`. Annotations of users say `Jitted[P, R]`: `JittedFunction[Callable[P, R]]`.

F is one covariant variable, not parameters and a result, because of pyright: where a class has a
parameter specification that contains Any, as NumPy's array types do, the overloads of `gradient`
are ambiguous to it, and what is ambiguous has the type Any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    overload,
    runtime_checkable,
)

from tracker.support.type_variables import F_co, P, R

if TYPE_CHECKING:
    from tracker.ir.graph import Function
    from tracker.jit.api import CacheInfo
    from tracker.jit.profile import Profile

_Object = TypeVar("_Object")
_Object_co = TypeVar("_Object_co", covariant=True)
_Rest = ParamSpec("_Rest")
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class _Wrapper(Protocol[F_co]):
    """Whatever has the plain function as `__wrapped__`."""

    @property
    def __wrapped__(self) -> F_co: ...


class _Inspectable(Protocol):
    """What jitted functions and methods offer besides calls, for arguments of `__wrapped__`."""

    @property
    def __name__(self) -> str: ...

    @overload
    def ir(
        self: _Wrapper[Callable[_Given, Any]], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Function: ...
    @overload
    def ir(self, *args: Any, pullback: bool, **kwargs: Any) -> Function: ...
    def ir(  # type: ignore[misc]  # the plain function has no such keyword
        self, *args: Any, pullback: bool = False, **kwargs: Any
    ) -> Function:
        """The IR after all passes; with `pullback`, that of value and gradient."""

    def llvm(
        self: _Wrapper[Callable[_Given, Any]], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> str:
        """The optimised LLVM IR."""

    def asm(
        self: _Wrapper[Callable[_Given, Any]], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> str:
        """The assembly."""

    def explain(
        self: _Wrapper[Callable[_Given, Any]], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> str:
        """What runs for these arguments: kernels, host calls, guards, times of compilation."""

    def profile(
        self: _Wrapper[Callable[_Given, Any]], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Profile:
        """How long each kernel takes for these arguments, with the user's lines."""

    def cache_info(self) -> CacheInfo:
        """How many traces there are, and how many calls no machine code served."""

    def clear_cache(self) -> None:
        """Drop all traces."""


class JittedMethod(_Inspectable, Protocol[_Object_co, F_co]):
    """A jitted method of an object, called without the object, as F says. The methods that take
    arguments take the object first: `model.step.explain(model, x)`."""

    @property
    def __self__(self) -> _Object_co: ...
    @property
    def __func__(
        self: JittedMethod[_Object, Callable[_Rest, _Result]],
    ) -> JittedFunction[Callable[Concatenate[_Object, _Rest], _Result]]: ...
    @property
    def __wrapped__(
        self: JittedMethod[_Object, Callable[_Rest, _Result]],
    ) -> Callable[Concatenate[_Object, _Rest], _Result]: ...

    def __call__(
        self: JittedMethod[Any, Callable[_Rest, _Result]],
        *args: _Rest.args,
        **kwargs: _Rest.kwargs,
    ) -> _Result: ...


class JittedFunction(_Inspectable, Protocol[F_co]):
    """What `jit` makes of a function of type F."""

    @property
    def __wrapped__(self) -> F_co: ...

    def __call__(
        self: JittedFunction[Callable[_Given, _Result]],
        *args: _Given.args,
        **kwargs: _Given.kwargs,
    ) -> _Result: ...

    # Looked up on a class, and on an object; a class method; a static method.
    @overload
    def __get__(
        self: JittedFunction[Callable[Concatenate[_Object, _Rest], _Result]],
        instance: None,
        owner: type[_Object],
    ) -> JittedFunction[Callable[Concatenate[_Object, _Rest], _Result]]: ...
    @overload
    def __get__(
        self: JittedFunction[Callable[Concatenate[_Object, _Rest], _Result]],
        instance: _Object,
        owner: type[_Object] | None = None,
    ) -> JittedMethod[_Object, Callable[_Rest, _Result]]: ...
    @overload
    def __get__(
        self: JittedFunction[Callable[Concatenate[type[_Object], _Rest], _Result]],
        instance: _Object | None,
        owner: type[_Object],
    ) -> JittedMethod[type[_Object], Callable[_Rest, _Result]]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> Self: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any: ...


if TYPE_CHECKING:  # an alias: the header says why
    Jitted = JittedFunction[Callable[P, R]]
else:

    @runtime_checkable
    class Jitted(JittedFunction[Callable[P, R]], Protocol[P, R]):
        """A function that `tracker.jit` has compiled: called as the plain one, with these methods.

        Those of a compiled method take its object, too: `Model.step.explain(model, x)`.

        >>> def twice(f: tracker.Jitted[[float], float], x: float) -> float:
        ...     return f(f(x))
        >>> twice(jit(lambda x: x * x), 3.0)
        81.0
        """


class JitKeywords(TypedDict, total=False):
    """The keywords of `jit`."""

    static: int | str | Iterable[int | str]
    cache: bool | None
    strict: bool
    max_traces: int
    pure: Iterable[Any]
    static_argnums: int | Iterable[int]
    static_argnames: str | Iterable[str]
