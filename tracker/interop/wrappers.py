"""A function of tracker in JAX, PyTorch, PyTensor and nutpie, which computes it on the host.

The other library gets the value, and tracker's pullback for its reverse mode. A jitted function
runs compiled. Start at `as_torch`; `to_jax` is for JAX's devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from tracker import tree
from tracker.autodiff.gradients import value_and_grad
from tracker.autodiff.pullbacks import pullback
from tracker.errors import UnsupportedError, message
from tracker.interop.foreign_functions import from_tensor, library
from tracker.jit import jit
from tracker.optim.first_order import matching_leaves
from tracker.support.shown_text import named_after


def as_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` as a function of PyTorch's tensors, differentiated by `torch.autograd`.

    Parameters
    ----------
    f : callable
        A function of arrays and numbers whose result may be a structure of them.

    Returns
    -------
    callable
        Takes tensors and structures of them, copied to the processor if they are elsewhere, and
        gives tensors on the device of the first. Other arguments are passed on.

    See Also
    --------
    from_torch

    Examples
    --------
    >>> import torch
    >>> g = as_torch(tracker.jit(lambda x: np.sum(x**2)))
    >>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    >>> g(x).backward()
    >>> x.grad
    tensor([2., 2.], dtype=torch.float64)
    """
    torch = library("torch")

    class FromTracker(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, shape: list[Any], arguments: Any, *args: Any) -> Any:
            plain = [from_tensor(x) if isinstance(x, torch.Tensor) else x for x in args]
            given, ctx.arguments = _filled(arguments, plain), arguments
            if any(ctx.needs_input_grad):
                y, ctx.pull = pullback(f, *given)
            else:
                y = f(*given)
            leaves, ctx.structure = tree.flatten(y)
            shape[:] = ctx.structure, y
            ctx.save_for_backward(*(x for x in args if isinstance(x, torch.Tensor)))
            ctx.others = [None if isinstance(x, torch.Tensor) else x for x in args]
            device = next((x.device for x in args if isinstance(x, torch.Tensor)), None)
            return tuple(torch.as_tensor(np.array(leaf), device=device) for leaf in leaves)

        @staticmethod
        def backward(ctx: Any, *seeds: Any) -> Any:
            wanted = ctx.needs_input_grad[2:]
            if torch.is_grad_enabled():  # this pullback may be differentiated, too
                saved = iter(ctx.saved_tensors)
                args = [next(saved) if x is None else x for x in ctx.others]
                pull = _pull_torch(f, ctx.arguments, ctx.structure, wanted)
                return None, None, *pull(*args, *seeds)
            found = ctx.pull(tree.unflatten(ctx.structure, list(map(from_tensor, seeds)), None))
            structure, given = ctx.arguments
            device, found = seeds[0].device, matching_leaves(structure, given, found, "gradient")
            return (
                None,
                None,
                *(
                    torch.as_tensor(np.array(c), device=device) if yes else None
                    for c, yes in zip(found, wanted, strict=True)
                ),
            )

    def function(*args: Any) -> Any:
        shape: list[Any] = []
        leaves, given = tree.flatten(args)
        found = FromTracker.apply(shape, (given, args), *leaves)
        structure, y = shape
        return tree.unflatten(structure, found, y)

    return named_after(function, "torch", f)


def _filled(arguments: tuple[tree.Structure, Any], leaves: Sequence[Any]) -> Any:
    """Arguments with other leaves; their structure is given, and the arguments themselves."""
    structure, args = arguments
    return tree.unflatten(structure, leaves, args)


def _pull_torch(
    f: Callable[..., Any],
    arguments: tuple[tree.Structure, Any],
    structure: tree.Structure,
    wanted: Sequence[bool],
) -> Callable[..., Any]:
    """The pullback as a function of tensors, for derivatives of higher order."""

    def pull(*given: Any) -> list[Any]:
        count = len(wanted)
        seed = tree.unflatten(structure, list(given[count:]), None)
        found = pullback(f, *_filled(arguments, given[:count]))[1](seed)
        return list(compress(matching_leaves(*arguments, found, "gradient"), wanted))

    def function(*given: Any) -> list[Any]:
        found = iter(as_torch(pull)(*given))
        return [next(found) if yes else None for yes in wanted]

    return function


def as_jax(f: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """`f` as a function of JAX's arrays that is computed on the host, by `jax.pure_callback`.

    `to_jax` has JAX itself compute what `f` does; this is for what it cannot (SciPy's solvers, a
    branch that differs from call to call).

    Parameters
    ----------
    f : callable
        A function of arrays, numbers, and structures of them.
    *args
        Examples: their structure, shapes and dtypes are those of later calls.

    Returns
    -------
    callable
        A function of the same arguments, with a first derivative in reverse mode.

    See Also
    --------
    tracker.to_jax, from_jax

    Examples
    --------
    >>> import jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> g = as_jax(lambda x: np.sum(x**2) if x[0] > 0 else x[0], np.ones(2))
    >>> jax.jit(jax.grad(g))(np.array([-1.0, 2.0]))
    Array([1., 0.], dtype=float64)
    """
    jax, jnp = library("jax"), library("jax.numpy")
    jax_function = library("tracker.interop.jax_function")
    arguments = jax_function.Arguments(args, jax_function.dtype_map(None))
    flat = arguments.flat(f)
    example = flat(*arguments.examples)
    leaves, structure = tree.flatten(example)
    results, examples = (
        [jax.ShapeDtypeStruct(np.shape(x), arguments.kind(np.result_type(x))) for x in xs]
        for xs in (leaves, arguments.examples)
    )
    moving = [spec.dtype.kind in "fc" for spec in examples]

    def run(*xs: Any) -> Any:
        found, made = tree.flatten(flat(*map(np.asarray, xs)))
        if made != structure:
            raise UnsupportedError(
                message(f"the result has the structure {made!r}; at the examples {structure!r}")
            )
        return _as_specified(found, results)

    def pull(xs: Any, seeds: Any) -> Any:
        _, back = pullback(flat, *map(np.asarray, xs))
        given = [np.conj(np.asarray(g)) for g in seeds]
        found = back(tree.unflatten(structure, given, example))
        return _as_specified(list(map(np.conj, compress(found, moving))), of_moving)

    of_moving = list(compress(examples, moving))

    call = jax.custom_vjp(
        lambda *xs: jax.pure_callback(run, results, *xs, vmap_method="sequential")
    )

    def backward(xs: Any, cotangents: Any) -> Any:
        seeds = [
            c if spec.dtype.kind in "fc" else jnp.zeros(spec.shape)
            for c, spec in zip(cotangents, results, strict=True)
        ]
        found = iter(jax.pure_callback(pull, of_moving, xs, seeds, vmap_method="sequential"))
        return tuple(next(found) if yes else None for yes in moving)

    call.defvjp(lambda *xs: (call(*xs), xs), backward)

    def function(*args: Any) -> Any:
        return tree.unflatten(structure, call(*arguments.leaves(args)), example)

    return named_after(function, "jax", f)


def _as_specified(found: Sequence[Any], specs: Sequence[Any]) -> list[Any]:
    """Results, after a check that they have the shapes that JAX was told."""
    for x, spec in zip(found, specs, strict=True):
        if np.shape(x) != spec.shape:
            raise UnsupportedError(
                message(f"a result has shape {np.shape(x)}; at the examples {spec.shape}")
            )
    return [np.asarray(x, spec.dtype) for x, spec in zip(found, specs, strict=True)]


def as_pytensor_op(f: Callable[..., Any], *args: Any) -> Any:
    """`f` as an Op of PyTensor, for a model in PyMC.

    Parameters
    ----------
    f : callable
        A function of arrays and numbers that gives one of them, or a tuple.
    *args
        Examples, which have the dtypes and numbers of axes of later arguments.

    Returns
    -------
    pytensor.graph.op.Op
        Called with tensor variables. It has a gradient, without a second derivative.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> op = as_pytensor_op(tracker.jit(lambda x: np.sum(x**2)), np.ones(2))
    >>> x = pt.dvector()
    >>> pt.grad(op(x), x).eval({x: np.array([1.0, 3.0])}, mode="FAST_COMPILE")
    array([2., 6.])
    """
    return _pytensor_classes()(f, list(map(np.asarray, args)))


@functools.cache
def _pytensor_classes() -> Any:
    """The class of such Ops."""
    gradient, pt = library("pytensor.gradient"), library("pytensor.tensor")
    graph = library("pytensor.graph")

    def type_like(x: Any) -> Any:
        return pt.TensorType(np.result_type(x).name, shape=(None,) * np.ndim(x))

    class TrackerOp(graph.Op):  # type: ignore[name-defined, misc]
        """A function of tracker."""

        def __init__(self, f: Callable[..., Any], examples: list[Any]) -> None:
            self.f = f
            self.itypes = list(map(type_like, examples))
            self.otypes = list(map(type_like, _as_results(f(*examples))))

        def make_node(self, *inputs: Any) -> Any:
            given = [
                t.filter_variable(pt.as_tensor(x)) for t, x in zip(self.itypes, inputs, strict=True)
            ]
            return graph.Apply(self, given, [t() for t in self.otypes])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            _store(outputs, self.otypes, _as_results(self.f(*inputs)))

        def connection_pattern(self, node: Any) -> list[list[bool]]:
            return [[t.dtype in pt.type.float_dtypes] * len(self.otypes) for t in self.itypes]

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
            seeds = [
                y.zeros_like() if isinstance(g.type, gradient.DisconnectedType) else g
                for y, g in zip(outputs, cotangents, strict=True)
            ]
            found = iter(TrackerPullbackOp(self)(*inputs, *seeds, return_list=True))
            return [
                next(found) if t.dtype in pt.type.float_dtypes else gradient.disconnected_type()
                for t in self.itypes
            ]

    class TrackerPullbackOp(graph.Op):  # type: ignore[name-defined, misc]
        """The cotangents of its float arguments."""

        def __init__(self, op: TrackerOp) -> None:
            self.op = op
            self.itypes = [*op.itypes, *op.otypes]
            self.moving = [t.dtype in pt.type.float_dtypes for t in op.itypes]
            self.otypes = list(compress(op.itypes, self.moving))

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            count = len(self.op.itypes)
            y, back = pullback(self.op.f, *inputs[:count])
            seeds = tuple(inputs[count:])
            found = back(seeds if isinstance(y, tuple) else seeds[0])
            _store(outputs, self.otypes, list(compress(found, self.moving)))

    return TrackerOp


def _as_results(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def _store(outputs: Any, types: Sequence[Any], found: Sequence[Any]) -> None:
    for storage, type, x in zip(outputs, types, found, strict=True):
        storage[0] = np.asarray(x, type.dtype)


def as_nutpie(logp: Callable[[Any], Any], x0: Any) -> Any:
    """A log density as a model that `nutpie.sample` takes.

    Parameters
    ----------
    logp : callable
        The log density of an array, or of a dict of arrays and numbers, up to a constant.
    x0 : array or dict
        Chains start around it, each number at most 1 away. The names of the dict are those of the
        trace; an array is "x".

    Returns
    -------
    nutpie.compiled_pyfunc.PyFuncModel

    Examples
    --------
    >>> import nutpie
    >>> model = as_nutpie(lambda q: -0.5 * q["mean"] ** 2 - np.sum(q["x"] ** 2),
    ...                   {"mean": 0.0, "x": np.zeros(2)})
    >>> trace = nutpie.sample(model, draws=20, tune=20, chains=1, seed=1, progress_bar=False)
    >>> trace.posterior["x"].shape
    (1, 20, 2)
    """
    named = x0 if isinstance(x0, dict) else {"x": np.asarray(x0, float)}
    flat, unravel = tree.ravel({name: np.asarray(x, float) for name, x in named.items()})
    density = _of_vector(logp, unravel, isinstance(x0, dict))
    with_slope = value_and_grad(jit(density), check_finite=False)
    with_slope(flat)  # an error is shorter here than in nutpie

    def expand(flat: Any) -> dict[str, Any]:
        return {name: np.asarray(x) for name, x in unravel(flat).items()}

    def start(seed: int) -> Any:
        return flat + np.random.default_rng(seed).uniform(-1.0, 1.0, flat.size)

    return library("nutpie.compiled_pyfunc").from_pyfunc(
        ndim=flat.size,
        make_logp_fn=lambda: with_slope,
        make_expand_fn=lambda *seeds: expand,
        make_initial_point_fn=start,
        expanded_dtypes=[np.dtype(float)] * len(named),
        expanded_shapes=[np.shape(x) for x in named.values()],
        expanded_names=list(named),
    )


def _of_vector(
    logp: Callable[[Any], Any], unravel: Callable[[Any], Any], is_named: bool
) -> Callable[[Any], Any]:
    """The log density of all numbers in one vector."""

    def density(flat: Any) -> Any:
        given = unravel(flat)
        return logp(given if is_named else given["x"])

    return density
