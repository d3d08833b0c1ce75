"""`scipy.stats` on tracked values. Names that are not defined here are SciPy's own.

Distributions: `distribution.py` has the classes (loc, scale, support, frozen distributions), which
run SciPy's formulas of the standard forms; `formulas.py` has those that are not SciPy's,
`multivariate.py` the multivariate ones. Samples: `samples.py` (SciPy's
functions), `descriptive.py`, `binned.py`, `kde.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import scipy.stats
from scipy.stats._multivariate import multi_rv_generic

from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.stats import binned, descriptive, samples  # noqa: F401
from tracker.scipy.stats.distribution import ContinuousDistribution, DiscreteDistribution
from tracker.scipy.stats.formulas import NAMES
from tracker.scipy.stats.kde import gaussian_kde as gaussian_kde
from tracker.scipy.stats.multivariate import MultivariateDistribution
from tracker.scipy.stats.multivariate import dirichlet as dirichlet
from tracker.scipy.stats.multivariate import invwishart as invwishart
from tracker.scipy.stats.multivariate import multinomial as multinomial
from tracker.scipy.stats.multivariate import multivariate_normal as multivariate_normal
from tracker.scipy.stats.multivariate import multivariate_t as multivariate_t
from tracker.scipy.stats.multivariate import wishart as wishart

if TYPE_CHECKING:
    from scipy.stats import *  # noqa: F403
else:
    _scipy_fallback, __dir__ = scipy_fallback(
        scipy.stats,
        hints=dict.fromkeys(
            ("spearmanr", "kendalltau", "weightedtau", "somersd", "mannwhitneyu", "wilcoxon"),
            "It depends on ranks, which are constant: use tracker.data(x), or pearsonr",
        ),
        constant=("rankdata", "percentileofscore"),
    )

    @functools.cache
    def __getattr__(name: str) -> Any:
        """SciPy's name; distributions without formulas refuse tracked values by name."""
        theirs = _scipy_fallback(name)
        if isinstance(theirs, scipy.stats.rv_continuous):
            return ContinuousDistribution(name)
        if isinstance(theirs, scipy.stats.rv_discrete):
            return DiscreteDistribution(name)
        return MultivariateDistribution(name) if isinstance(theirs, multi_rv_generic) else theirs

    globals().update({name: __getattr__(name) for name in NAMES})
globals().update(DROP_INS[scipy.stats])
