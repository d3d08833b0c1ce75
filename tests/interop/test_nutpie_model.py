"""Log densities as models of nutpie."""

import numpy as np
import pytest

import tracker
from tracker import interop

nutpie = pytest.importorskip("nutpie")

X = np.array([0.3, -1.2, 2.1])


@pytest.mark.parametrize("x0", [np.zeros(2), {"a": 0.0, "b": np.zeros((2, 1))}])
def test_a_normal_density(x0):
    def logp(q):
        parts = q.values() if isinstance(q, dict) else [q]
        return sum(-0.5 * np.sum((part - 3.0) ** 2) for part in parts)

    model = interop.as_nutpie(logp, x0)
    found = nutpie.sample(
        model, draws=400, tune=200, chains=1, seed=0, progress_bar=False
    ).posterior
    names = {"a": (), "b": (2, 1)} if isinstance(x0, dict) else {"x": (2,)}
    for name, shape in names.items():
        assert found[name].shape == (1, 400, *shape)
        np.testing.assert_allclose(found[name].mean(), 3.0, atol=0.5)
        np.testing.assert_allclose(found[name].std(), 1.0, atol=0.4)


def test_an_error_of_the_density_is_raised_at_once():
    with pytest.raises(KeyError, match="sigma"):
        interop.as_nutpie(lambda q: q["mean"] / q["sigma"], {"mean": 0.0})
    with pytest.raises(tracker.NotScalarError, match=r"has shape \(3,\)"):
        interop.as_nutpie(lambda q: -(q**2), np.zeros(3))
