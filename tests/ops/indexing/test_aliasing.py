"""Copies and views are those of NumPy: a write into the result of each function reaches its operand
exactly where it does in NumPy; eager and compiled, of an argument and of a computed array."""

import copy

import numpy as np
import pytest

import tracker
import tracker.numpy as tnp
import tracker.testing

SAME = {  # each gives an array of the operand's three numbers
    "astype": lambda x: np.astype(x, x.dtype),
    "astype of itself": lambda x: np.astype(x, x.dtype, copy=False),
    "method astype": lambda x: x.astype(x.dtype),
    "method astype of itself": lambda x: x.astype(x.dtype, copy=False),
    "copy": np.copy,
    "method copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "array": tnp.array,
    "array of itself": lambda x: tnp.array(x, copy=False),
    "array ndmin": lambda x: tnp.array(x, ndmin=1),
    "asarray": tnp.asarray,
    "ascontiguousarray": tnp.ascontiguousarray,
    "require": lambda x: tnp.require(x, requirements="W"),
    "positive": np.positive,
    "real": np.real,
    "attribute real": lambda x: x.real,
    "real part": lambda x: np.real(x + 1j * x),
    "conjugate": np.conjugate,
    "method conj": lambda x: x.conj(),
    "flatten": lambda x: x.flatten(),
    "ravel": np.ravel,
    "reshape": lambda x: np.reshape(x, (1, 3))[0],
    "reshape to a copy": lambda x: np.reshape(x, 3, copy=True),
    "reshape of itself": lambda x: x.reshape(3, copy=False),
    "squeeze": lambda x: np.squeeze(x[None]),
    "transpose": lambda x: x.T,
    "swapaxes": lambda x: np.swapaxes(x[None], 0, 1)[:, 0],
    "moveaxis": lambda x: np.moveaxis(x[None], 0, 1)[:, 0],
    "atleast_1d": np.atleast_1d,
    "expand_dims": lambda x: np.expand_dims(x, 1)[:, 0],
    "split": lambda x: np.split(x, 1)[0],
    "unstack": lambda x: np.unstack(x[None])[0],
    "roll": lambda x: np.roll(x, 0),
    "sort": np.sort,
    "repeat": lambda x: np.repeat(x, 1),
    "tile": lambda x: np.tile(x, 1),
    "concatenate": lambda x: np.concatenate([x]),
    "pad": lambda x: np.pad(x, 0),
    "take": lambda x: np.take(x, [0, 1, 2]),
    "integers": lambda x: x[[0, 1, 2]],
    "mask": lambda x: x[np.ones(3, bool)],
    "slice": lambda x: x[:],
    "ellipsis": lambda x: x[...],
    "where": lambda x: np.where(True, x, x),
    "select": lambda x: np.select([x > -9], [x]),
    "choose": lambda x: np.choose([0, 0, 0], [x]),
    "clip": lambda x: np.clip(x, None, 1e9),
    "clip without bounds": lambda x: np.clip(x, None, None),
    "method clip without bounds": lambda x: x.clip(),
    "nan_to_num": np.nan_to_num,
    "nan_to_num of itself": lambda x: np.nan_to_num(x, copy=False),
    "sum over no axis": lambda x: np.sum(x, axis=()),
    "max over no axis": lambda x: np.max(x, axis=()),
    "einsum": lambda x: np.einsum("i->i", x),
    "delete": lambda x: np.delete(x, []),
    "append": lambda x: np.append(x, []),
    "diff": lambda x: np.diff(x, 0),
    "unwrap": lambda x: np.unwrap(x, 1e9),
    "meshgrid": lambda x: np.meshgrid(x)[0],
    "view": lambda x: x.view(),
}
PARTS = {  # of a square matrix
    "diagonal by einsum": lambda x: np.einsum("ii->i", x),
    "diagonal by lists": lambda x: np.einsum(x, [0, 0], [0])[::2],
    "diagonal of a turned array": lambda x: np.einsum("ii->i", x.T[::-1]),
    "transpose by einsum": lambda x: np.einsum("ij->ji", x)[0],
    "row sums by einsum": lambda x: np.einsum("ij->i", x),
    "ravel of a transpose": lambda x: x.T.ravel()[:2],
    "ravel as it lies": lambda x: x.T.ravel("K")[1:3],
    "reshape in Fortran's order": lambda x: x.reshape(-1, order="f")[:2],
    "reshape of a transpose in Fortran's order": lambda x: x.T.reshape((1, 9), order="F")[0, 2:5],
    "transpose of three axes": lambda x: np.transpose(x.reshape(3, 1, 3), (2, 0, 1))[0],
    "transpose of a part": lambda x: x[::-1].T[1],
    "moved axis": lambda x: np.moveaxis(x.reshape(1, 3, 3), 1, -1)[0, 1],
    "swapped axes": lambda x: np.swapaxes(x[None], 0, 2)[1],
    "method swapaxes": lambda x: x.swapaxes(-1, 0)[:2],
    "matrix_transpose": lambda x: np.matrix_transpose(x[None])[0, 1],
    "rot90": lambda x: np.rot90(x)[0],
    "array_split": lambda x: np.array_split(x, 2, 1)[0],
    "last column": lambda x: x[:, -1],
    "ascontiguousarray": lambda x: tnp.ascontiguousarray(x)[0],
    "ascontiguousarray of a transpose": lambda x: tnp.ascontiguousarray(x.T)[0],
    "asfortranarray": lambda x: tnp.asfortranarray(x)[0],
    "asfortranarray of a transpose": lambda x: tnp.asfortranarray(x.T)[0],
    "slice of the flat iterator": lambda x: x.flat[1:3],
    "what needs no broadcast": lambda x: np.broadcast_arrays(x, x[0].copy())[0],
    "array in an order": lambda x: tnp.array(x, copy=None, order="F")[0],
}
READ = {  # what NumPy does not let write into
    "diagonal": np.diagonal,
    "method diagonal": lambda x: x.diagonal(1),
    "diag": lambda x: np.diag(x.T),
    "linalg.diagonal": np.linalg.diagonal,
    "broadcast_to": lambda x: np.broadcast_to(x[0], (2, 3)),
    "broadcast_to its own shape": lambda x: np.broadcast_to(x, x.shape),
    "part of a broadcast array": lambda x: np.broadcast_to(x, (2, 3, 3))[1, :2],
    "sliding windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
}


def check_writes(f):
    """NumPy's value and the gradient of a function that writes: of an argument, a computed array,
    and compiled."""
    x = np.arange(9.0).reshape(3, 3) / 4 + 0.1
    want, fast = f(x.copy()), tracker.jit(f)
    for g in (f, lambda x: f(x * 1), fast):
        np.testing.assert_allclose(tracker.withgradient(g, x).val, want, rtol=1e-14)
        tracker.testing.gradcheck(g, x)
    np.testing.assert_allclose(fast(x.copy()), want, rtol=1e-14)


@pytest.mark.parametrize("name", READ)
def test_a_read_only_view_shows_writes_to_its_base(name):
    read = READ[name]

    def f(x):
        part = read(x)
        x[0] = x[1] * x[2]
        x *= 2.0
        return np.sum(np.sin(part))

    check_writes(f)
    x = np.arange(9.0).reshape(3, 3)
    with pytest.raises(ValueError, match="read-only"):
        read(x)[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        read(tracker.param(x) * 1)[...] = 0


@pytest.mark.parametrize("name", [name for name in READ if name != "sliding windows"])
def test_read_only_views_stay_read_only_when_compiled(name):
    x = np.arange(9.0).reshape(3, 3)
    f = tracker.jit(READ[name])
    for _ in range(3):
        part = f(x)
        assert np.may_share_memory(part, x) and not part.flags.writeable


@pytest.mark.parametrize("name", PARTS)
def test_a_write_to_a_part_reaches_the_base_where_it_does_in_numpy(name):
    part = PARTS[name]

    def f(x):
        y = part(x)
        y[...] = 2 * x[1, 1] - x[0, 2]
        return np.sum(x * x) + np.sum(y)

    check_writes(f)


@pytest.mark.parametrize("name", SAME)
def test_a_write_reaches_the_operand_where_it_does_in_numpy(name):
    same = SAME[name]

    def f(x):
        y = same(x)
        y[0] = 100.0
        return np.sum(x * x) + np.sum(y)

    x = np.array([0.5, 1.5, 2.5])
    want, fast = f(x.copy()), tracker.jit(f)
    assert tracker.data(f(tracker.param(x))) == want
    assert fast(x.copy()) == want
    for g in (f, lambda x: f(x * 1), fast):
        value, (slope,) = tracker.withgradient(g, x)
        assert value == want
        np.testing.assert_array_equal(slope[1:], 2 * x[1:] + 1)
        assert slope[0] == (0.0 if want > 1e4 else 2 * x[0])


C = np.arange(9.0).reshape(3, 3)
LINEAR = {
    "sum": np.sum,
    "twice": lambda x: np.sum(x) + np.sum(x),
    "constant": lambda x: 3.0,
    "weighed": lambda x: np.sum(C * x),
    "element": lambda x: x[1, 2],
    "squares": lambda x: np.sum(np.sum(x, 0) ** 2),
}
LOSSES = {
    "gradient": lambda f, x: tracker.gradient(f, x),
    "withgradient": lambda f, x: tracker.withgradient(f, x).grad,
    "value_and_grad": lambda f, x: tracker.value_and_grad(f)(x)[1],
    "hessian": lambda f, x: tracker.hessian(f, x),
    "hessian_reverse": lambda f, x: tracker.hessian_reverse(f, x),
    "diaghessian": lambda f, x: tracker.diaghessian(f, x),
    "hvp": lambda f, x: tracker.hvp(f, x, np.ones((3, 3))),
    "jacobian of a gradient": lambda f, x: tracker.jacobian(lambda y: tracker.gradient(f, y)[0], x),
    "gradient of each": lambda f, x: tracker.vmap(lambda y: tracker.gradient(f, y)[0])(
        np.stack([x, x])
    ),
}
SHARED = {
    "itself": lambda x: x,
    "itself twice": lambda x: (x, x),
    "turned": lambda x: {"a": x, "b": x.T},
    "broadcast": lambda x: np.broadcast_to(x[..., 0], (2, *x.shape[:-1])),
    "number": lambda x: 3.0,
    "captured": lambda x: C * 1,
    "part": lambda x: x[1:],
    "diagonal": lambda x: np.diagonal(np.outer(x, x)),
}
SPREAD = {
    "pullback": lambda f, x: _pulled(f, x),
    "jvp": lambda f, x: _pushed(f, x),
    "jacobian": lambda f, x: tracker.jacobian(lambda y: tracker.tree.leaves(f(y))[0], x),
    "vmap": lambda f, x: [x, tracker.vmap(f)(x)],
    "vmap to the last axis": lambda f, x: [x, tracker.vmap(f, out_axes=-1)(x)],
    "vmap of a captured array": lambda f, x: tracker.vmap(lambda _: C, out_axes=None)(x),
    "vmap twice": lambda f, x: [x, tracker.vmap(tracker.vmap(f))(np.stack([x, x]))],
    "jacobian of each": lambda f, x: tracker.vmap(
        lambda y: tracker.jacobian(lambda z: tracker.tree.leaves(f(z))[0], y)
    )(x),
}


def _pulled(f, x):
    y, back = tracker.pullback(f, x)
    seed = tracker.tree.map(np.ones_like, y)
    return [x, seed, y, back(seed)]


def _pushed(f, x):
    t = np.ones_like(x)
    return [x, t, *tracker.jvp(f, (x,), (t,))]


def _check_that_each_can_be_written_into(results):
    arrays = [x for x in tracker.tree.leaves(results) if isinstance(x, np.ndarray)]
    for x in arrays:
        x[...] = 0.0
    for i, x in enumerate(arrays):
        x += i + 1.0
    for i, x in enumerate(arrays):
        assert np.all(x == i + 1.0)
    assert C[2, 2] == 8.0


def _check_results(of, f):
    """Those of a derivative, of that of a compiled function, and of the compiled derivative."""
    x, fast = C / 4 + 0.1, tracker.jit(lambda x: of(f, x))
    for g in (lambda x: of(f, x), lambda x: of(tracker.jit(f), x), fast, fast, fast):
        _check_that_each_can_be_written_into(g(x.copy()))


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("derivative", LOSSES)
def test_derivatives_share_no_memory(derivative, name):
    _check_results(LOSSES[derivative], LINEAR[name])


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("derivative", SPREAD)
def test_results_that_alias_are_copied(derivative, name):
    _check_results(SPREAD[derivative], SHARED[name])


def test_rows_that_a_mapped_function_returns_are_copies_within_a_derivative():
    def f(x):
        y = tracker.vmap(lambda row: row)(x)
        y[0] = 0.0
        return np.sum(x * y)

    x = C / 4 + 0.1
    for g in (f, tracker.jit(f)):
        want = 2 * x
        want[0] = 0.0
        np.testing.assert_allclose(tracker.gradient(g, x)[0], want)


def test_gradients_of_interior_values_share_no_memory():
    w = tracker.param(C)
    h = w * 1.0
    k = h.T
    tracker.back(np.sum(k), once=False)
    _check_that_each_can_be_written_into([w.grad, h.grad, k.grad])
