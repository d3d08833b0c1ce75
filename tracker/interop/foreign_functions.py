"""Functions of JAX, PyTorch and numba as functions that tracker differentiates.

Each has a rule that calls the library on plain arrays, on the host: compiled code calls back into
Python, and there is no second derivative. Start at `from_jax`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.custom_rules import custom_gradient
from tracker.autodiff.pullbacks import pullback
from tracker.errors import UnsupportedError, message
from tracker.jit import jit
from tracker.support.shown_text import named_after


def library(name: str) -> Any:
    """A module of another library, or one that needs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LIBRARIES:
            raise
        shown, package = _LIBRARIES[missing]
        raise ImportError(message(f"this needs {shown}", f"pip install {package}", "")) from error


_LIBRARIES = {
    "jax": ("JAX", "'tracker-grad[jax]'"),
    "torch": ("PyTorch", "torch"),
    "pytensor": ("PyTensor", "pytensor"),
    "nutpie": ("nutpie", "nutpie"),
}


def from_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX as one of NumPy's arrays, differentiated by `jax.vjp`.

    Parameters
    ----------
    f : callable
        A function that `jax.jit` can compile; arguments and result may be structures.

    Returns
    -------
    callable
        Takes and gives NumPy's arrays. It has a first derivative, in reverse mode.

    Raises
    ------
    UnsupportedError
        An argument is float64, and JAX is set to 32 bits.

    See Also
    --------
    as_jax, tracker.custom_gradient

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> f = from_jax(lambda x: jnp.sum(jnp.sin(x)))
    >>> tracker.gradient(lambda x: f(x) * 2.0, np.zeros(2, np.float32))[0]
    array([2., 2.], dtype=float32)
    """
    jax, jnp = library("jax"), library("jax.numpy")
    linearize = jax.jit(lambda *args: jax.vjp(f, *args))
    pull = jax.jit(lambda back, seed: back(seed))

    def to_jax(x: Any) -> Any:
        made = jnp.asarray(x)
        if made.dtype.itemsize < np.result_type(x).itemsize:
            raise UnsupportedError(
                f"JAX would compute {np.result_type(x)} with 32 bits",
                'Write jax.config.update("jax_enable_x64", True), or pass float32',
            )
        return made

    def run(*args: Any) -> Any:
        y, back = linearize(*jax.tree.map(to_jax, args))

        def pull_back(seed: Any) -> tuple[Any, ...]:
            seeds = jax.tree.map(lambda g, y: jnp.asarray(np.conj(g), y.dtype), seed, y)
            return tuple(jax.tree.map(_from_cotangent, pull(back, seeds)))

        return jax.tree.map(_plain, y), pull_back

    return custom_gradient(named_after(run, "from_jax", f), host=True)


def _from_cotangent(c: Any) -> Any:
    """JAX has the conjugate of our cotangents, and a dtype of no bytes for those of integers."""
    return np.conj(_plain(c)) if c.dtype.itemsize else np.zeros(c.shape)


def from_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch as one of NumPy's arrays, differentiated by `torch.autograd`.

    Parameters
    ----------
    f : callable
        A function of tensors, or a `torch.nn.Module`. Its own parameters are constants: to train
        them from here, make them arguments (`torch.func.functional_call`).

    Returns
    -------
    callable
        Takes and gives NumPy's arrays, on the processor. It has a first derivative, in reverse
        mode.

    See Also
    --------
    as_torch, tracker.custom_gradient

    Examples
    --------
    >>> import torch
    >>> f = from_torch(lambda x: torch.sum(x**2))
    >>> tracker.gradient(lambda x: f(x) * 2.0, np.ones(2))
    (array([4., 4.]),)
    """
    torch = library("torch")

    def to_tensor(x: Any) -> Any:
        if not tree.is_numeric(x):
            return x
        made = torch.as_tensor(np.array(x))  # a copy: they may be written to
        return made.requires_grad_() if made.dtype.is_floating_point or made.is_complex() else made

    def run(*args: Any) -> Any:
        with torch.enable_grad():
            given = tree.map(to_tensor, args)
            y = f(*given)
        leaves = [x for x in tree.leaves(given) if getattr(x, "requires_grad", False)]
        results = tree.leaves(y)

        def pull_back(seed: Any) -> tuple[Any, ...]:
            roots = [
                (root, torch.as_tensor(np.array(g)).to(root))
                for root, g in zip(results, tree.leaves(seed), strict=True)
                if getattr(root, "requires_grad", False)
            ]
            found = _torch_gradients(torch, roots, leaves)
            entries = dict(zip(map(id, leaves), found, strict=True))
            made: tuple[Any, ...] = tree.map(lambda x: entries.get(id(x)), given)
            return made

        return tree.map(from_tensor, y), pull_back

    return custom_gradient(named_after(run, "from_torch", f), host=True)


def _torch_gradients(torch: Any, roots: list[Any], leaves: list[Any]) -> list[Any]:
    """The cotangents of leaves; None where nothing arrives."""
    if not roots or not leaves:
        return [None] * len(leaves)
    results, seeds = zip(*roots, strict=True)
    found = torch.autograd.grad(results, leaves, seeds, retain_graph=True, allow_unused=True)
    return [None if c is None else from_tensor(c) for c in found]


def from_tensor(x: Any) -> Any:
    """A copy of a tensor as an array, or a number."""
    return _plain(x.detach().cpu().resolve_conj().resolve_neg().numpy())


def from_numba(
    f: Callable[..., Any], pullback: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A function of numba, with a derivative: numba has none.

    Parameters
    ----------
    f : callable
        From `numba.njit`, or from `numba.vectorize`, which needs a pullback: arrays and numbers go
        in and come out.
    pullback : callable, optional
        `pullback(dy, *args)` gives the cotangent of the argument, or a tuple of those of several;
        it may be a function of numba, too. By default tracker differentiates the Python function
        that was given to numba.

    Returns
    -------
    callable
        Runs numba's code for its value. It has a first derivative, in reverse mode.

    See Also
    --------
    tracker.custom_gradient, tracker.jit

    Examples
    --------
    >>> import numba
    >>> @numba.njit
    ... def squares(x):
    ...     return np.sum(x**2)
    >>> tracker.gradient(from_numba(squares), np.ones(2))
    (array([2., 2.]),)
    """
    pull = _pullback_of_python(f) if pullback is None else pullback

    def run(*args: Any) -> Any:
        def pull_back(dy: Any) -> tuple[Any, ...]:
            found = pull(dy, *args)
            return found if isinstance(found, tuple) else (found,)

        return f(*args), pull_back

    return custom_gradient(named_after(run, "from_numba", f), host=True)


def _pullback_of_python(f: Any) -> Callable[..., Any]:
    plain = getattr(f, "py_func", None)
    if plain is None:
        raise UnsupportedError(
            f"from_numba got a {type(f).__name__} without the Python function that it was "
            "compiled from",
            "Give a pullback: from_numba(f, lambda dy, x: dy * dfdx(x))",
        )
    compiled = jit(plain)
    return lambda dy, *args: pullback(compiled, *args)[1](dy)


def _plain(x: Any) -> Any:
    """A number or a writable array of another library's."""
    return np.array(x)[()]
