"""Examples are tests: they run, in a short form, and they say what they promise."""

import importlib.util
import shutil
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import scipy.optimize  # noqa: F401  (imported here, because it changes warning filters)

import tracker

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture
def picture(tmp_path):
    """Saves a figure that an example has drawn: its axes are labelled, and it is no blank page."""

    def check(figure):
        figure.savefig(tmp_path / "picture.png", dpi=60)
        assert (tmp_path / "picture.png").stat().st_size > 5_000
        labels = [a.get_xlabel() + a.get_ylabel() + a.get_title() for a in figure.axes]
        assert all(labels)

    yield check
    plt.close("all")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_example_has_the_form_of_the_gallery(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 120 and max(map(len, lines)) <= 100
    assert lines[0] == '"""' and lines[2] == "=" * len(lines[1])  # a title for the documentation
    assert lines[4].startswith("Teaches ")
    assert "import numpy as np" in lines  # NumPy itself, not tracker.numpy
    assert lines[-3:] == ["", 'if __name__ == "__main__":', "    main()"]
    assert f'.savefig("{path.stem}.png"' in path.read_text()


def test_digits(picture):
    example = load("digits")
    model, losses, seconds = example.train(epochs=13, eager_epochs=1)
    assert losses[-1] < losses[0] / 10
    assert len(seconds["eager"]) == len(seconds["compiled"]) / 12 == 28
    images, labels = example.load()[1]
    guesses = np.argmax(model(images), axis=1)
    assert np.mean(guesses == labels) >= 0.97
    picture(example.draw(losses, images, labels, guesses))


def test_digits_eager_and_compiled_take_the_same_steps():
    example = load("digits")
    eager, compiled = (example.train(epochs=2, eager_epochs=n)[0] for n in (2, 0))
    for a, b in zip(tracker.tree.leaves(eager), tracker.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_curve_fit_needs_fewer_calls_for_the_same_fit(picture):
    example = load("curve_fit")
    x, y, names = example.load()
    start = np.array([0.1] * 10 + [0.0, y.min(), np.ptp(y)])
    for ways in (example.squares, example.robust):
        differences, eager, compiled = (fit for _, fit in ways(x, y, start))
        for fit in (eager, compiled):
            assert fit.cost == pytest.approx(differences.cost, rel=1e-6)
            assert fit.calls < differences.calls / 5
        curves = [example.curve(fit.parameters, x) for fit in (eager, compiled)]
        np.testing.assert_allclose(*curves, rtol=1e-3)
    picture(example.draw(x, y, names, compiled.parameters))


def test_hmc_chains_agree_and_predict(picture):
    example = load("hmc")
    move = tracker.jit(example.trajectory)
    chains, accepted = zip(
        *(example.sample(seed, draws=300, warmup=200, move=move) for seed in range(2)), strict=True
    )
    assert example.r_hat(np.array(chains)).max() < 1.1
    assert all(0.6 < share < 0.95 for share in accepted)
    _, (x, y), names = example.load()
    draws = np.concatenate(chains)
    p = np.mean(1.0 / (1.0 + np.exp(-x @ draws.T)), axis=1)
    assert np.mean((p > 0.5) == y) >= 0.94
    picture(example.draw(draws, p, y, names))


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


def test_cnn_trains_to_97_percent(picture):
    example = load("cnn")
    net, losses, _ = example.train()
    images, labels = example.load()[1]
    guesses = np.argmax(net(images), axis=1)
    assert np.mean(guesses == labels) >= 0.97 and losses[-1] < losses[0] / 10
    assert all(w.dtype == np.float32 for w in tracker.tree.leaves(net))
    picture(example.draw(net, losses, np.histogram2d(labels, guesses, bins=10)[0].astype(int)))


def test_cnn_takes_the_same_steps_eager_and_compiled():
    """Dropout included: it draws the same numbers."""
    example = load("cnn")
    eager, losses, _ = example.train(epochs=1, compiled=False)
    compiled, same, _ = example.train(epochs=1)
    np.testing.assert_allclose(losses, same, rtol=1e-4)
    for a, b in zip(tracker.tree.leaves(eager), tracker.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=2e-3)


def test_kalman_recovers_what_it_was_simulated_with(picture):
    example = load("kalman")
    states, measured = example.simulate(steps=80)
    found, errors = example.fit(measured)
    assert np.all(abs(found - example.TRUTH) < 3 * errors) and np.all(errors < 0.4)
    means, covariances, _ = example.kalman(found, measured)
    off, measured_off = (np.std(at - states[:, :2]) for at in (means[:, :2], measured))
    assert off < 0.75 * measured_off
    picture(example.draw(states, measured, means, covariances))


def test_garch_finds_a_maximum(picture):
    example = load("garch")
    days, returns = (column[:400] for column in example.load())
    best, errors, found = example.fit(returns)
    gradient = tracker.gradient(example.cost, best, returns)[0]
    assert np.all(abs(gradient * errors) < 1e-2)  # next to what one standard error changes, 0.5
    assert found.fun < example.cost(best + 0.5 * errors, returns)
    assert 0.9 < best[2] + best[3] < 1.0 and best[4] > 2.0
    picture(example.draw(days, returns, best))


def test_gaussian_process_predicts_terrain(picture):
    example = load("gaussian_process")
    grid, heights, chosen = example.load(points=80, size=50)
    points, values = grid.reshape(-1, 2), heights.ravel()
    found = example.fit(points[chosen], values[chosen])
    gradient = tracker.gradient(example.cost, found.x, points[chosen], values[chosen])[0]
    assert found.x.keys() == gradient.keys() and max(map(abs, gradient.values())) < 1e-2
    mean, sd = example.predict(found.x, points[chosen], values[chosen], points)
    assert np.std(mean - values) < 0.5 * np.std(values)
    assert np.mean(abs(mean - values) < 2.0 * sd + 10.0) > 0.9
    picture(example.draw(grid, heights, chosen, *(a.reshape(heights.shape) for a in (mean, sd))))


def test_sir_finds_the_peak_and_its_error(picture):
    example = load("sir_events")
    parameters, covariance = example.fit()
    found = {name: rest for name, *rest in example.with_errors(parameters, covariance)}
    day, error = found["peak: day"]
    assert 5.5 < day < 7.0 and 0.05 < error < 0.5
    # the day of the peak by another way: where a dense solution is highest
    days = np.linspace(0.0, 12.0, 24_001)
    assert days[np.argmax(example.solve(parameters, days).y[1])] == pytest.approx(day, abs=1e-3)
    # one standard error along each eigenvector changes the answer as its derivative says
    sd, directions = np.linalg.eigh(covariance)
    changes = [
        example.answers(parameters + h * v)["peak: day"] - day
        for h, v in zip(1e-3 * np.sqrt(sd), directions.T, strict=True)
    ]
    assert np.linalg.norm(changes) == pytest.approx(1e-3 * error, rel=1e-2)
    picture(example.draw(parameters, covariance))


def test_optimal_control_meets_its_constraints(picture):
    example = load("optimal_control")
    found = example.swing_up(iterations=12)
    start = np.linalg.norm(example.miss(np.zeros(example.STEPS)))
    assert np.linalg.norm(example.miss(found.x)) < start
    assert abs(found.x).max() <= example.LIMIT + 1e-9
    # hanging at rest, it stays so
    states = example.trajectory(np.zeros(3))
    np.testing.assert_allclose(states, 0.0, atol=1e-12)
    picture(example.draw(found.x))


def test_topology_makes_a_stiffer_beam_of_the_same_steel(picture):
    example = load("topology")
    beam = example.Beam(height=6)
    densities, works = example.optimise(beam, steps=12)
    assert works[-1] < 0.5 * works[0]
    assert np.mean(beam.steel(densities[-1])) == pytest.approx(example.SHARE, abs=1e-6)
    slope = tracker.gradient(beam.work, densities[5])[0]
    step = 1e-4 * np.random.default_rng(0).normal(size=beam.shape)
    change = beam.work(densities[5] + step) - beam.work(densities[5] - step)
    assert 2.0 * np.sum(slope * step) == pytest.approx(change, rel=1e-3)
    picture(example.draw(beam, densities, works))


def test_lens_is_sharp(picture):
    example = load("lens")
    lens = example.design()
    before, after = (np.std(example.errors(x), axis=1).max() for x in (example.START, lens))
    assert after < before / 10
    # Snell's law at a plane
    angle = np.array([[0.0, np.sin(0.3), np.cos(0.3)]])
    _, ray = example.refract(np.zeros(4), np.array([[0.0, 1.0, -2.0]]), angle, 1.0 / example.GLASS)
    assert example.GLASS * ray[0, 1] == pytest.approx(angle[0, 1])
    assert np.linalg.norm(ray) == pytest.approx(1.0)
    picture(example.draw({"two spheres": example.START, "two aspheres": lens}))


def test_black_scholes_gives_the_formulas_of_textbooks(picture):
    example = load("black_scholes")
    inputs = example.market()
    derived, formulas = example.greeks(inputs, 360.0), example.formulas(inputs, 360.0)
    assert derived.keys() == formulas.keys()
    for name, value in formulas.items():
        assert derived[name] == pytest.approx(value, rel=1e-9)
    spots, years, delta, gamma = example.surfaces(inputs, 360.0, points=12)
    for i, j in (0, 0), (3, 7), (11, 11):
        there = np.array([spots[j], inputs[1], years[i], inputs[3]])
        formula = example.formulas(there, 360.0)
        assert delta[i, j] == pytest.approx(formula["delta"], abs=1e-12)
        assert gamma[i, j] == pytest.approx(formula["gamma"], abs=1e-12)
    picture(example.draw(spots, years, delta, gamma))


def test_flow_is_a_density_that_fits_better(picture):
    example = load("flow")
    flow, losses = example.train(steps=150)
    assert np.mean(losses[-10:]) < losses[0] - 0.5
    assert [layer.keeps for layer in flow] == [0, 1] * (example.LAYERS // 2)
    x = np.random.default_rng(0).normal(size=(50, 2))
    for layer in flow:
        np.testing.assert_allclose(layer.inverse(layer.forward(x)[0]), x, atol=1e-9)
    axis, cell = np.linspace(-4.0, 5.0, 300, retstep=True)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert np.sum(np.exp(example.log_density(flow, grid))) * cell**2 == pytest.approx(1.0, abs=0.02)
    picture(example.draw(flow, losses))


def test_transformer_learns_and_sees_no_future(picture):
    example = load("transformer")
    weights, alphabet, losses = example.train(steps=25)
    assert losses[-1] < losses[0] - 1.0
    assert all(w.dtype == np.float32 for w in tracker.tree.leaves(weights))
    text = np.arange(2 * example.CONTEXT).reshape(2, -1) % len(alphabet)
    before = example.scores(weights, text)
    text[:, 20] += 1
    after = example.scores(weights, text)
    np.testing.assert_allclose(after[:, :20], before[:, :20], rtol=1e-5, atol=1e-5)
    assert abs(before[:, 20:] - after[:, 20:]).max() > 1e-3
    picture(example.draw(losses, example.write(weights, alphabet, "The ", n=20)))


def test_brusselator_makes_patterns(picture):
    example = load("brusselator")
    y = example.start()
    jacobian = example.sparse.jacobian(example.rates, 0.0, y, argnum=1)
    assert jacobian.pattern.nnz == 6 * y.size and jacobian.colours.max() < 16
    assert example.check(jacobian, y) < 1e-12
    states, _ = example.develop(y, jacobian, end=1.5, looks=2)
    assert np.std(states[-1, 0]) > 4 * np.std(states[0, 0])
    picture(example.draw(states, jacobian(0.0, y), jacobian.colours))


def test_hyperparameters_find_the_places_that_matter(picture):
    example = load("hyperparameters")
    x, y = example.pictures()
    solver, held_loss = example.problem(x, y)
    equal = np.full(example.SIDE**2, np.log(0.1))
    found = tracker.gradient(held_loss, equal)[0]
    bumped = [held_loss(equal + 1e-4 * s * (np.arange(equal.size) == 30)) for s in (1, -1)]
    np.testing.assert_allclose(found[30], (bumped[0] - bumped[1]) / 2e-4, rtol=1e-3)
    logs, losses = example.tune(held_loss, equal, steps=25)
    before, after = solver(equal), solver(logs)
    assert example.new_loss(after, x, y) < 0.5 * example.new_loss(before, x, y)
    picture(example.draw(losses, logs, before, after))


def test_spectral_pde_finds_the_state_between_sensors(picture):
    example = load("spectral_pde")
    truth, measured = example.simulate(looks=10)
    found = example.solve(example.assimilate(measured, windows=2, iterations=25), len(truth) - 1)
    error = np.sqrt(np.mean((found - truth) ** 2, axis=1))
    assert error[5] < 0.25 * np.std(truth)
    # one step of the solver, against steps of half the size
    v = np.fft.rfft(truth[0])
    example.DT, example.HALF = example.DT / 2, np.sqrt(example.HALF)
    halves = example.step(example.step(v))
    example.DT, example.HALF = 2 * example.DT, example.HALF**2
    np.testing.assert_allclose(example.step(v), halves, atol=1e-3 * abs(v).max())
    picture(example.draw(truth, found))


def test_bundle_adjustment_finds_points_and_their_sparse_jacobian(picture):
    example = load("bundle_adjustment")
    cameras, points = example.scene(cameras=9, points=30)
    camera, point, pixels = example.photograph(cameras, points)
    rng = np.random.default_rng(1)
    guess, start = points + 0.1 * rng.normal(size=points.shape), cameras
    _, adjusted, result = example.adjust(start, guess, camera, point, pixels)
    assert np.std(result.fun) < example.NOISE
    moved = example.align(adjusted, points)
    assert np.linalg.norm(moved - points) < 0.3 * np.linalg.norm(guess - points)
    # the sparse Jacobian, against a product with the dense function

    def residuals(x):
        n = cameras.size
        c, p = x[:n].reshape(-1, 6)[camera], x[n:].reshape(-1, 3)[point]
        return np.ravel(tracker.vmap(example.project)(c, p) - pixels)

    direction = rng.normal(size=len(result.x))
    product = tracker.jvp(residuals, (result.x,), (direction,))[1]
    np.testing.assert_allclose(result.jac @ direction, product, rtol=1e-9, atol=1e-9)
    picture(example.draw(points, guess, moved, result.jac, result.fun))


def test_galaxy_is_the_same_from_one_process_and_from_two(picture, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)  # its processes import the loss
    example = load("galaxy")
    monkeypatch.setitem(sys.modules, "galaxy", example)
    stars, w = example.stars(6000), example.start()
    shards = np.array_split(stars, 5)
    engine, own = example.engine("2")
    with example.value_and_grad(example.loss, shards[own], engine) as step:
        value, gradient = step(w)
        found, losses = example.fit(step, len(stars), iterations=8)
    whole = tracker.value_and_grad(example.loss)(w, stars)
    assert value == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(gradient, whole[1], rtol=1e-9, atol=1e-7)
    assert losses[-1] < losses[0] - 0.2
    picture(example.draw(shards, found, losses))


def test_galaxy_has_a_density():
    example = load("galaxy")
    axis, cell = np.linspace(-6.0, 6.0, 400, retstep=True)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    w = example.start().reshape(-1, 6)
    w[:, 5] = np.linspace(-1.0, 1.0, len(w))
    density = np.exp(example.log_density(w.ravel(), grid))
    assert np.sum(density) * cell**2 == pytest.approx(1.0, abs=1e-3)


def test_robot_arm_moves_in_c_as_in_python(picture, tmp_path):
    example = load("robot_arm")
    goals = example.curve(200)[:12]
    found = example.in_python(tracker.jit(example.arm), goals)
    np.testing.assert_allclose(example.in_python(example.arm, goals[:2]), found[:2], rtol=1e-9)
    off = [np.linalg.norm(example.places(a)[-1] - g) for a, g in zip(found, goals, strict=True)]
    assert max(off[5:]) < 0.02
    picture(example.draw(found, {"Python": 1000.0, "C": 0.1}))
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    np.testing.assert_allclose(example.in_c(example.build(tmp_path), goals), found, rtol=1e-9)


def test_ultrasound_sees_a_body(picture):
    jax = pytest.importorskip("jax")
    example = load("ultrasound")
    example.STEPS, true = 100, example.body()
    measured = example.sound(true)[0]
    slope = example.by_jax(measured)
    change = 0.01 * np.random.default_rng(0).normal(size=true.shape)
    value, gradient = tracker.value_and_grad(example.loss)(change, measured)
    assert slope(change)[0] == pytest.approx(value, rel=1e-4)
    assert isinstance(slope(change)[1], jax.Array)
    np.testing.assert_allclose(slope(change)[1], gradient, atol=1e-4 * abs(gradient).max())
    found, losses = example.find(slope, iterations=6)
    assert losses[-1] < 0.1 * slope(0.0 * change)[0]
    assert np.all(found[~example.IS_INSIDE] == 1.0)
    picture(example.draw(true, found, losses))


def test_ultrasound_without_jax_says_what_to_install(monkeypatch):
    example = load("ultrasound")
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(SystemExit, match=r"pip install 'tracker-grad\[jax\]'"):
        example.main()
