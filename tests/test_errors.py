"""Every refusal: the text says what happened, where, and what to write instead."""

import pickle
import re

import numpy as np
import pytest

import tracker
from tracker import (
    back,
    data,
    gradient,
    jit,
    param,
    pullback,
    update,
    value_and_grad,
    withgradient,
)

V = np.array([1.0, 2.0, 3.0])
HERE = r"test_errors\.py:\d+"


def test_an_error_has_its_text_after_pickling_too():
    made = tracker.RuleError("a rule of shape (2,)", "Sum over the axes", "f.py:3")
    assert str(made) == "a rule of shape (2,). Sum over the axes. (at f.py:3)"
    assert str(pickle.loads(pickle.dumps(made))) == str(made)


# Leaving NumPy (more in tape/test_conversion_errors.py) -------------------------------------------


def test_other_kinds_of_arrays_are_refused_and_not_stripped():
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])
    p = param(V)
    with pytest.raises(tracker.UnsupportedError, match=r"MaskedArray.*np\.asarray"):
        p * masked
    with pytest.raises(tracker.ConversionError):
        masked * p
    with pytest.raises(tracker.UnsupportedError, match=r"MaskedArray.*np\.asarray"):
        gradient(lambda x: np.sum(x), masked)


def test_augmented_assignment_to_a_plain_array_is_refused_where_others_would_see_it():
    p = param(V)

    def into_a_view():
        base = np.zeros((2, 3))
        row = base[0]
        row += p

    def into_an_argument(total):
        total += p

    def into_a_row_of_an_argument(table):
        table[0] += p

    def without_an_operator(total):
        np.add(total, p, out=total)

    with pytest.raises(tracker.ConversionError, match=HERE):
        into_a_view()
    held = {"total": np.zeros(3), "table": np.zeros((2, 3))}
    for call in (into_an_argument, without_an_operator):
        with pytest.raises(tracker.ConversionError, match=HERE):
            call(held["total"])
    with pytest.raises(tracker.ConversionError, match=HERE):
        into_a_row_of_an_argument(held["table"])
    assert not held["total"].any() and not held["table"].any()


def test_unsupported():
    p = param(V)
    for call, name in [
        (lambda: np.save("nowhere", p), r"np\..*save"),
        (lambda: np.is_busday(p), r"np\..*is_busday"),
        (lambda: p.ctypes, r"\.ctypes"),
        (lambda: np.sort(p, order="x"), "order='x'"),
        (lambda: p * "text", "str"),
        (lambda: p + {}, "dict"),
        (lambda: p.view(np.recarray), r"viewed as recarray.*data\(x\)"),
        (lambda: p[None].view(np.matrix), r"viewed as matrix.*np\.block for np\.bmat"),
    ]:
        with pytest.raises(tracker.UnsupportedError, match=name) as caught:
            call()
        assert isinstance(caught.value, (NotImplementedError, TypeError))
        assert re.search(HERE, str(caught.value))


# Scalars ------------------------------------------------------------------------------------------


LOSSES = [
    (lambda f, x: gradient(f, x), "gradient"),
    (lambda f, x: withgradient(f, x), "withgradient"),
    (lambda f, x: value_and_grad(f)(x), "value_and_grad"),
]


@pytest.mark.parametrize(
    "f, error, text",
    [
        (lambda x: x * 2, tracker.NotScalarError, r"NAME needs a scalar.*\(3,\)"),
        (lambda x: x * 2, tracker.NotScalarError, "Use np.sum, or tracker.jacobian"),
        (lambda x: None, tracker.NotScalarError, "the output is a NoneType"),
        (lambda x: "loss", tracker.NotScalarError, "the output is a str"),
        (lambda x: np.sum(x) * 1j, tracker.ComplexLossError, r"complex128.*np\.abs"),
        (lambda x: np.sum(x) * np.nan, tracker.NonFiniteError, "NaN.*nan_check"),
        (lambda x: np.sum(x) * np.inf, tracker.NonFiniteError, "infinite"),
    ],
)
@pytest.mark.parametrize("call, name", LOSSES)
def test_a_loss_must_be_one_finite_real_number(call, name, f, error, text):
    with pytest.raises(error, match=text.replace("NAME", name) + f".*{HERE}"):
        call(f, V)


def test_check_finite_switches_off():
    assert np.isnan(gradient(lambda x: x * np.nan, 2.0, check_finite=False)[0])
    val, (g,) = withgradient(lambda x: x * np.inf, 2.0, check_finite=False)
    assert (val, g) == (np.inf, np.inf)
    val, g = value_and_grad(lambda x: x * np.inf, check_finite=False)(2.0)
    assert (val, g) == (np.inf, np.inf)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda p: back(p * 2), tracker.NotScalarError, r"\(3,\). Use back\(np.sum\(y\)\) or back"),
        (
            lambda p: back(p * 2, np.ones(2)),
            tracker.NotScalarError,
            r"seed has shape \(2,\).*\(3,\)",
        ),
        (lambda p: back(np.sum(p) * np.nan), tracker.NonFiniteError, "NaN"),
        (lambda p: back(np.sum(p) * np.inf), tracker.NonFiniteError, "infinite"),
        (lambda p: back(np.sum(p) * 1j), tracker.ComplexLossError, "complex128"),
        (lambda p: back(3.0), tracker.NotTrackedError, r"plain float.*tracker\.param"),
        (lambda p: back(np.sum(np.zeros_like(p))), tracker.NotTrackedError, "depend on any param"),
    ],
)
def test_back_refuses(call, error, text):
    p = param(V)
    with pytest.raises(error, match=text):
        call(p)
    assert p.grad.tolist() == [0, 0, 0]


def test_param_and_update_refuse():
    for bad in ("text", None, {"w": 1.0}, [1.0, "x"], object(), np.array(["a"])):
        with pytest.raises(tracker.NotTrackedError, match="param got"):
            param(bad)
    with pytest.raises(tracker.NotTrackedError, match="update cannot change a float in place"):
        update(2.0, 1.0)
    with pytest.raises(tracker.NotTrackedError, match="not a leaf"):
        update(param(2.0) * 2, 1.0)
    p = param(V)
    with pytest.raises(ValueError, match="broadcast"):
        update(p, np.ones(2))
    assert data(p).tolist() == V.tolist()


def test_seeds_and_tangents_are_checked():
    _, pull = pullback(lambda x: (x, x * 2), V)
    with pytest.raises(tracker.NotScalarError, match=r"seed has shape \(2,\).*\(3,\)"):
        pull((np.ones(2), np.ones(3)))
    with pytest.raises(tracker.NotScalarError, match="another structure"):
        pull((np.ones(3),))
    with pytest.raises(TypeError, match="1 arguments need 1 tangents; 2 were given"):
        tracker.jvp(lambda x: x, (V,), (V, V))


# Errors of the user's own -------------------------------------------------------------------------


def test_an_error_in_the_function_passes_through_and_leaves_nothing():
    p = param(2.0)

    def broken(x):
        y = p * x
        raise KeyError(y.data)

    for call in (gradient, withgradient, pullback):
        with pytest.raises(KeyError):
            call(broken, 3.0)
    back(p * 3.0)
    assert p.grad == 3.0


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda p: p + np.ones(2), ValueError, "broadcast"),
        (lambda p: p @ np.ones(2), ValueError, "match"),
        (lambda p: np.dot(p, np.ones(2)), ValueError, r"\(3,\) and \(2,\) not aligned: 3 .* != 2"),
        (lambda p: p.dot(np.ones((4, 2))), ValueError, r"\(4,2\) not aligned: 3 \(dim 0\) != 4"),
        (lambda p: np.pad(p, 1.0), TypeError, "`pad_width` must be of integral type"),
        (lambda p: np.place(np.zeros_like(p), [True, False], p), ValueError, "must be the same"),
        (lambda p: np.sum(p, axis=1), np.exceptions.AxisError, None),
        (lambda p: p.reshape(2, 2), ValueError, "reshape"),
        (lambda p: p[3], IndexError, "out of bounds"),
        (lambda p: p[0, 0], IndexError, "too many indices"),
        (lambda p: np.sin(p, p, p, p), TypeError, None),
    ],
)
def test_errors_of_numpy_stay(call, error, text):
    with pytest.raises(error, match=text):
        call(param(V))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: np.sort(x, kind="odd"), ValueError, "sort kind must be"),
        (lambda x: np.sort(x, kind="stable", stable=True), ValueError, "at the same time"),
        (lambda x: x.argsort(kind="odd"), ValueError, "sort kind must be"),
        (lambda x: np.searchsorted(x, 1.0, sorter=[0.5] * 3), TypeError, "only contain integers"),
        (lambda x: np.searchsorted(x, 1.0, sorter=[0, 1]), ValueError, "sorter.size must equal"),
        (lambda x: np.searchsorted(x, 1.0, sorter=[0, -1, 3]), ValueError, "Sorter index out"),
        (lambda x: np.take(x, np.array([1.0])), TypeError, "Cannot cast array data from dtype"),
        (lambda x: np.take(x, np.array(1.0)), TypeError, "Cannot cast scalar from dtype"),
    ],
)
def test_ways_to_sort_and_to_take_that_numpy_does_not_know(call, error, text):
    for f in (call, lambda x: call(param(x)), jit(call)):
        with pytest.raises(error, match=text):
            f(np.arange(3.0))


def test_a_folder_of_the_users_that_is_called_numpy(tmp_path):
    """Its files are the user's: where they stand says so, not what they are called."""
    file = tmp_path / "numpy" / "model.py"
    names: dict = {}
    text = "def model(t):\n    return float(t)\n"
    exec(compile(text, str(file), "exec"), names)
    with pytest.raises(tracker.ConversionError, match=re.escape(f"(at {file}:2)")):
        gradient(names["model"], 2.0)
