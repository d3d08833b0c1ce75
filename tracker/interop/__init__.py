"""Functions of other libraries here, and functions of tracker there.

to_jax, stablehlo                   the recorded program, run by JAX
from_jax, from_torch, from_numba    a function of theirs, differentiated here
                                    (`foreign_functions.py`)
as_jax, as_torch, as_pytensor_op, as_nutpie   a function of tracker for them, which computes it on
                                    the host (`wrappers.py`)

`jax_function.py` converts functions, `program.py` has programs and their derivatives in JAX,
`replay.py` runs an `ir.Function` on JAX's arrays, and `jax_ops` says what each op is there. Each
library is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracker.interop.foreign_functions import from_jax, from_numba, from_torch, library
from tracker.interop.wrappers import as_jax, as_nutpie, as_pytensor_op, as_torch

__all__ = [
    "as_jax",
    "as_nutpie",
    "as_pytensor_op",
    "as_torch",
    "from_jax",
    "from_numba",
    "from_torch",
    "stablehlo",
    "to_jax",
]


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
    jax_function = library("tracker.interop.jax_function")
    options = jax_function.Options(jax_function.dtype_map(dtype), precision)
    converted: Callable[..., Any] = jax_function.convert(f, args, options, checks, derivative)
    return converted


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
    converted = to_jax(f, *args, **options)
    jax_function = library("tracker.interop.jax_function")
    text: str = jax_function.lower(converted, args, options.get("dtype"))
    return text


def __dir__() -> list[str]:
    return __all__
