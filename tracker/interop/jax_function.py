"""A function of NumPy's arrays as a function of JAX's. Start at `convert`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from tracker import tree
from tracker.errors import UnsupportedError, message
from tracker.interop.program import Options, Smooth, is_float, with_pullback
from tracker.interop.replay import DtypeMap, fitting
from tracker.support.shown_text import named_after

_MOST_SHOWN = 4  # conditions in a message


def convert(
    f: Callable[..., Any], args: tuple[Any, ...], options: Options, checks: str, derivative: str
) -> Callable[..., Any]:
    """See `tracker.to_jax`."""
    for name, given, known in (
        ("checks", checks, ("nan", "checkify")),
        ("derivative", derivative, ("reverse", "forward")),
    ):
        if given not in known:
            raise UnsupportedError(f"to_jax got {name}={given!r}", f"Give one of {known}")
    arguments = Arguments(args, options.kind)
    value = Smooth(arguments.flat(f), arguments.examples, options)
    program = value.program
    if checks == "nan" and program.conditions and not all(map(is_float, program.types)):
        raise UnsupportedError(
            f"{getattr(f, '__name__', 'the function')} returns integers or bools, which cannot "
            f"be NaN where its trace does not hold: {_shown(program.conditions)}",
            'Use to_jax(..., checks="checkify"); or np.where, tracker.cond and loops of '
            "tracker in place of branches on values",
            "",
        )
    run = jax.jit(with_pullback(value) if derivative == "reverse" else value.call)
    failed = "the program does not hold for these arguments: " + _shown(program.conditions)

    def function(*args: Any) -> Any:
        made, ok = run(*arguments.leaves(args))
        if checks == "checkify" and program.conditions:
            checkify.check(ok, failed.replace("{", "{{").replace("}", "}}"))
        return program.rebuild(made)

    return named_after(function, "jax", f)


def lower(g: Callable[..., Any], args: tuple[Any, ...], dtype: Any) -> str:
    """The text of what XLA compiles of a function that `convert` gave."""
    text: str = jax.jit(g).lower(*Arguments(args, dtype_map(dtype)).specs()).as_text()
    return text


def dtype_map(dtype: Any) -> DtypeMap:
    if dtype is not None and np.dtype(dtype) != np.float32:
        raise UnsupportedError(
            f"to_jax got dtype={np.dtype(dtype).name}",
            "Give np.float32, or nothing for the dtypes of NumPy",
        )
    return DtypeMap(dtype is not None, bool(jax.config.jax_enable_x64))


class Arguments:
    """The examples of a function's arguments, and how later arguments are laid out as theirs.

    An array, a number, or a list of numbers is a leaf; others (None, text) must stay what they are.
    """

    def __init__(self, args: tuple[Any, ...], kind: DtypeMap) -> None:
        self.args, self.kind = args, kind
        given, self.structure = tree.flatten(args, _is_leaf, objects=True)
        self.given = list(map(_as_example, given))
        self.examples = [x for x in self.given if tree.is_numeric(x)]

    def flat(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """`f` as a function of the leaves."""

        def function(*leaves: Any) -> Any:
            arriving = iter(leaves)
            given = [next(arriving) if tree.is_numeric(x) else x for x in self.given]
            return f(*tree.unflatten(self.structure, given, self.args))

        function.__name__ = getattr(f, "__name__", "function")
        return function

    def leaves(self, args: tuple[Any, ...]) -> list[Any]:
        """The leaves of other arguments, as JAX's arrays."""
        if bool(jax.config.jax_enable_x64) != self.kind.has_64_bits:
            raise UnsupportedError(
                message("jax_enable_x64 has changed since the function was converted")
            )
        if len(args) != len(self.args):
            raise UnsupportedError(
                message(f"{len(self.args)} arguments were converted; {len(args)} were given")
            )
        found: list[Any] = []
        examples = iter(self.given)
        try:
            tree.map_as(
                self.structure,
                lambda _, x: self._add(found, next(examples), x),
                self.args,
                args,
            )
        except (ValueError, KeyError) as error:
            raise UnsupportedError(
                message(f"the arguments have another structure than the examples: {error}")
            ) from error
        return found

    def _add(self, found: list[Any], example: Any, x: Any) -> None:
        if not tree.is_numeric(example):
            if x is not example and x != example:
                raise UnsupportedError(
                    message(f"an argument is {x!r}; the function was converted for {example!r}")
                )
            return
        dtype, shape = self.kind(np.result_type(example)), np.shape(example)
        x = jnp.asarray(x) if isinstance(x, list) else x
        if not self._is_like(x, shape, dtype):
            shown = f"{x.dtype}{list(x.shape)}" if hasattr(x, "dtype") else f"a {type(x).__name__}"
            raise UnsupportedError(
                f"an argument is {shown}; the function was converted for {dtype}{list(shape)}",
                "Convert the function again, with such an example",
            )
        found.append(jnp.asarray(fitting(x, dtype) if isinstance(x, np.ndarray) else x, dtype))

    def _is_like(self, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
        """Whether an argument has a shape and a dtype; Python's numbers become floats."""
        if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
            kind = np.result_type(x).kind
            return shape == () and (dtype.kind == kind or (kind in "bif" and dtype.kind in "fc"))
        given = getattr(x, "dtype", None)
        return given is not None and np.shape(x) == shape and self.kind(given) == dtype

    def specs(self) -> Any:
        """The arguments as JAX's shapes and dtypes."""
        made = [
            jax.ShapeDtypeStruct(np.shape(x), self.kind(np.result_type(x)))
            if tree.is_numeric(x)
            else x
            for x in self.given
        ]
        return tree.unflatten(self.structure, made, self.args)


def _is_leaf(x: Any) -> bool:
    return isinstance(x, jax.Array) or tree.is_number_list(x)


def _as_example(x: Any) -> Any:
    return np.array(x) if _is_leaf(x) or isinstance(x, np.ndarray) else x


def _shown(conditions: list[str]) -> str:
    more = len(conditions) - _MOST_SHOWN
    return "; ".join([*conditions[:_MOST_SHOWN], *([f"{more} more"] if more > 0 else [])])
