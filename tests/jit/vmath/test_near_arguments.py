"""Functions with a faster version for near arguments are right for every argument."""

import numpy as np
import pytest

import tracker


def waves(x):
    return np.sin(x) * 2.0 + np.cos(x * 3.0) * np.tan(x)


def few(x):
    return np.sin(x) * 2.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [40, 1001])
@pytest.mark.parametrize("waves", [waves, few])
def test_one_far_argument_reruns_the_loop(n, dtype, waves):
    fast = tracker.jit(waves)
    x = np.linspace(-50.0, 50.0, n).astype(dtype)
    fast(x)
    for far in (1e14, -1e22, 3e38, np.inf, np.nan):
        for at in (0, n // 2, n - 1):
            y = x.copy()
            y[at] = far
            with np.errstate(all="ignore"):
                expected = waves(y)
            tolerance = 1e-13 if dtype is np.float64 else 2e-5
            np.testing.assert_allclose(fast(y), expected, rtol=tolerance, atol=tolerance)


def test_a_rerun_loop_resets_its_sums():
    fast = tracker.value_and_grad(tracker.jit(lambda x: np.sum(np.sin(x))))
    x = np.linspace(0.0, 1.0, 500)
    fast(x)
    x[17] = 1e300
    value, gradient = fast(x)
    np.testing.assert_allclose(value, np.sum(np.sin(x)), rtol=1e-13)
    np.testing.assert_allclose(gradient, np.cos(x), rtol=1e-13)


@pytest.mark.parametrize(
    "dtype, f, inlined",
    [(np.float64, few, False), (np.float32, few, True), (np.float32, waves, False)],
)
def test_general_version_is_inlined_where_it_may_matter(dtype, f, inlined):
    fast = tracker.jit(f)
    fast(np.linspace(0.0, 1.0, 100).astype(dtype))
    text = fast._jitted.groups.popitem()[1].specializations[0].compiled.pieces[0].modules[0].text
    kind = f"f{np.dtype(dtype).itemsize * 8}"
    assert f"call {'double' if kind == 'f64' else 'float'} @vm.sin_near.{kind}(" in text
    assert (f"@vm.sin.{kind}.far(" in text) is not inlined
    assert (f"@vm.sin.{kind}(" in text) is inlined


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scalars_branch_to_the_general_form(dtype):
    fast = tracker.jit(lambda x: (np.sin(x), np.cos(x), np.tan(x * 1)))
    ulp = np.finfo(dtype).eps
    for x in map(dtype, (0.3, -0.0, 2.0**17, 2.0**41, -1e22, 3e38, np.inf, np.nan)):
        with np.errstate(invalid="ignore"):
            want = np.sin(x), np.cos(x), np.tan(x)
            for _ in range(2):
                np.testing.assert_allclose(fast(x), want, rtol=4 * ulp)
