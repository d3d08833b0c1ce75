"""`to_jax` and `stablehlo`: a function of NumPy's arrays as a function of JAX's."""

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


def to_jax(
    f: Callable[..., Any],
    *args: Any,
    dtype: Any = None,
    precision: str | None = "highest",
    checks: str = "nan",
    derivative: str = "reverse",
) -> Callable[..., Any]:
    """`f` as a function of JAX's arrays, for `jax.jit`, `vmap`, `pmap`, `export`, GPU and TPU.

    `f` runs once at the examples, and what it records is run by JAX. `jax.grad` of the result is
    tracker's own derivative; `f` may itself be a derivative: `tracker.value_and_grad(loss)`.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers, and structures of them.
    *args
        Examples: their structure, shapes and dtypes are those of later calls.
    dtype : numpy.float32, optional
        Compute with floats of 32 bits. By default the dtypes are NumPy's, which needs
        `jax.config.update("jax_enable_x64", True)` for float64.
    precision : str or None
        Of matrix products, as in `jax.default_matmul_precision`. GPUs and TPUs multiply float32
        with fewer digits unless it is "highest".
    checks : {"nan", "checkify"}
        What happens where the program does not hold: a branch of Python's takes another path than
        at the examples, an index is out of range, a matrix is singular. "nan": all floats that it
        returns are NaN; a program that has such conditions must return floats only. "checkify":
        moreover an error of `jax.experimental.checkify`.
    derivative : {"reverse", "forward"}
        For `jax.grad`, `vjp`, `jacrev`, or for `jvp`, `jacfwd`, `linearize`. `jax.hessian` takes
        "reverse": derivatives of the derivative are in forward mode.

    Returns
    -------
    callable
        A function of the same arguments. What `f` captures is a constant of it.

    Raises
    ------
    UnsupportedError
        An operation has no equivalent in JAX, or `f` writes into its arguments; the message names
        the line.

    See Also
    --------
    stablehlo, export

    Examples
    --------
    >>> import jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> g = to_jax(lambda x: np.sum(np.abs(x) * x), np.ones(3))
    >>> jax.jit(jax.grad(g))(np.array([0.0, 1.0, -2.0]))
    Array([0., 2., 4.], dtype=float64)
    """
    options = Options(dtype_map(dtype), precision)
    for name, given, known in (
        ("checks", checks, ("nan", "checkify")),
        ("derivative", derivative, ("reverse", "forward")),
    ):
        if given not in known:
            raise UnsupportedError(message(f"to_jax got {name}={given!r}", f"Give one of {known}"))
    arguments = Arguments(args, options.kind)
    value = Smooth(arguments.flat(f), arguments.examples, options)
    program = value.program
    if checks == "nan" and program.conditions and not all(map(is_float, program.types)):
        raise UnsupportedError(
            message(
                f"{getattr(f, '__name__', 'the function')} returns integers or bools, which cannot "
                f"be NaN where its trace does not hold: {_shown(program.conditions)}",
                'Use to_jax(..., checks="checkify"); or np.where, tracker.cond and loops of '
                "tracker in place of branches on values",
                "",
            )
        )
    run = jax.jit(with_pullback(value) if derivative == "reverse" else value.call)
    failed = "the program does not hold for these arguments: " + _shown(program.conditions)

    def function(*args: Any) -> Any:
        made, ok = run(*arguments.leaves(args))
        if checks == "checkify" and program.conditions:
            checkify.check(ok, failed.replace("{", "{{").replace("}", "}}"))
        return program.rebuild(made)

    return named_after(function, "jax", f)


def stablehlo(f: Callable[..., Any], *args: Any, **options: Any) -> str:
    """The StableHLO of `f`: what XLA compiles, as text.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers, and structures of them; a derivative, too.
    *args
        Examples.
    **options
        Those of `to_jax`.

    Returns
    -------
    str
        A module of MLIR.

    See Also
    --------
    to_jax, trace

    Examples
    --------
    >>> import jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> text = stablehlo(tracker.value_and_grad(lambda x: np.sum(np.sin(x))), np.ones(3))
    >>> "stablehlo.cosine" in text
    True
    """
    arguments = Arguments(args, dtype_map(options.get("dtype")))
    text: str = jax.jit(to_jax(f, *args, **options)).lower(*arguments.specs()).as_text()
    return text


def dtype_map(dtype: Any) -> DtypeMap:
    if dtype is not None and np.dtype(dtype) != np.float32:
        raise UnsupportedError(
            message(
                f"to_jax got dtype={np.dtype(dtype).name}",
                "Give np.float32, or nothing for the dtypes of NumPy",
            )
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
                message(
                    f"an argument is {shown}; the function was converted for {dtype}{list(shape)}",
                    "Call tracker.to_jax with such an example",
                )
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
