"""Examples are tests: they run, and they say what they promise."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  (imported here, because it changes warning filters)

import tracker

pytestmark = pytest.mark.optimised

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_digits_trains_to_97_percent(digits):
    model, score, losses, seconds, _ = digits.train(quiet=True)
    assert score >= 0.97
    assert losses[-1] < losses[0] / 10
    assert len(seconds["eager"]) and len(seconds["compiled"])
    assert type(model) is digits.MLP


def test_digits_eager_and_compiled_take_the_same_steps(digits):
    eager = digits.train(epochs=2, eager_epochs=2, quiet=True)[0]
    compiled = digits.train(epochs=2, eager_epochs=0, quiet=True)[0]
    for a, b in zip(tracker.tree.leaves(eager), tracker.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_digits_draws_a_picture(digits, tmp_path):
    model, _, losses, seconds, test = digits.train(epochs=1, eager_epochs=1, quiet=True)
    digits.draw(model, losses, seconds, test, tmp_path / "out" / "digits.png")
    assert (tmp_path / "out" / "digits.png").stat().st_size > 10_000


def test_curve_fit_needs_fewer_calls_for_the_same_fit(tmp_path):
    example = load("curve_fit")
    x, y, names = example.load()
    for fits in (example.squares(x, y), example.robust(x, y)):
        differences, eager, compiled = fits
        for fit in (eager, compiled):
            assert fit.cost == pytest.approx(differences.cost, rel=1e-6)
            assert fit.calls < differences.calls / 5
        np.testing.assert_allclose(
            example.curve(compiled.parameters, x), example.curve(eager.parameters, x), rtol=1e-3
        )
    example.draw(x, y, names, fits[-1], tmp_path / "out" / "curve_fit.png")
    assert (tmp_path / "out" / "curve_fit.png").stat().st_size > 10_000


def test_hmc_chains_agree_and_predict(tmp_path):
    example = load("hmc")
    chains, _ = example.run(chains=2, draws=300, warmup=200)
    assert example.r_hat(chains).max() < 1.1
    assert all(0.6 < chain.accepted < 0.95 for chain in chains)
    _, (x, y), names = example.load()
    assert np.mean((example.predictions(chains, x) > 0.5) == y) >= 0.94
    example.draw(chains, (x, y), names, tmp_path / "out" / "hmc.png")
    assert (tmp_path / "out" / "hmc.png").stat().st_size > 10_000


def test_hmc_trajectories_are_the_same_eager_and_compiled():
    example = load("hmc")
    (x, y), _, _ = example.load()
    rng = np.random.default_rng(0)
    w, momentum = 0.1 * rng.normal(size=31), rng.normal(size=31)
    eager = example.trajectory(w, momentum, 0.02, x, y)
    move = tracker.jit(example.trajectory)
    for _ in range(2):
        compiled = move(w, momentum, 0.02, x, y)
        np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-9, atol=1e-12)
        assert compiled[1] == pytest.approx(eager[1])
    # leapfrog keeps the energy up to the square of the step
    start = example.log_density(w, x, y) - 0.5 * momentum @ momentum
    assert move(w, momentum, 0.002, x, y)[1] == pytest.approx(start, abs=0.5)


def test_cnn_trains_to_97_percent():
    example = load("cnn")
    net, score, losses, _ = example.train()
    assert score >= 0.97 and losses[-1] < losses[0] / 10
    assert all(w.dtype == np.float32 for w in tracker.tree.leaves(net))


def test_cnn_takes_the_same_steps_eager_and_compiled():
    """Dropout included: it draws the same numbers."""
    example = load("cnn")
    eager, _, losses, _ = example.train(epochs=1, compiled=False)
    compiled, _, same, _ = example.train(epochs=1)
    np.testing.assert_allclose(losses, same, rtol=1e-4)
    for a, b in zip(tracker.tree.leaves(eager), tracker.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=2e-3)
