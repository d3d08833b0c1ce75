"""`scipy.stats` on tracked values. Names that are not defined here are SciPy's own.

Distributions: `distribution.py` has the classes (loc, scale, support, frozen distributions);
`common.py`, `real_line.py`, `half_line.py`, `intervals.py` and `discrete.py` give the formulas of
the standard forms, `moments.py` their means, variances and entropies, `multivariate.py` the
multivariate ones. Samples: `descriptive.py`, `hypothesis_tests.py`, `binned.py`, `kde.py`.
"""

from __future__ import annotations

import functools
from typing import Any

import scipy.stats
from scipy.stats._multivariate import multi_rv_generic

from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy.stats import common, discrete, half_line, intervals, real_line
from tracker.scipy.stats.binned import binned_statistic as binned_statistic
from tracker.scipy.stats.binned import cumfreq as cumfreq
from tracker.scipy.stats.binned import mode as mode
from tracker.scipy.stats.binned import relfreq as relfreq
from tracker.scipy.stats.descriptive import boxcox as boxcox
from tracker.scipy.stats.descriptive import boxcox_llf as boxcox_llf
from tracker.scipy.stats.descriptive import circmean as circmean
from tracker.scipy.stats.descriptive import circstd as circstd
from tracker.scipy.stats.descriptive import circvar as circvar
from tracker.scipy.stats.descriptive import entropy as entropy
from tracker.scipy.stats.descriptive import gmean as gmean
from tracker.scipy.stats.descriptive import gstd as gstd
from tracker.scipy.stats.descriptive import hmean as hmean
from tracker.scipy.stats.descriptive import iqr as iqr
from tracker.scipy.stats.descriptive import kurtosis as kurtosis
from tracker.scipy.stats.descriptive import median_abs_deviation as median_abs_deviation
from tracker.scipy.stats.descriptive import moment as moment
from tracker.scipy.stats.descriptive import pmean as pmean
from tracker.scipy.stats.descriptive import sem as sem
from tracker.scipy.stats.descriptive import skew as skew
from tracker.scipy.stats.descriptive import trim_mean as trim_mean
from tracker.scipy.stats.descriptive import variation as variation
from tracker.scipy.stats.descriptive import zmap as zmap
from tracker.scipy.stats.descriptive import zscore as zscore
from tracker.scipy.stats.distribution import (
    ContinuousDistribution,
    DiscreteDistribution,
    Distribution,
)
from tracker.scipy.stats.hypothesis_tests import chisquare as chisquare
from tracker.scipy.stats.hypothesis_tests import energy_distance as energy_distance
from tracker.scipy.stats.hypothesis_tests import f_oneway as f_oneway
from tracker.scipy.stats.hypothesis_tests import linregress as linregress
from tracker.scipy.stats.hypothesis_tests import pearsonr as pearsonr
from tracker.scipy.stats.hypothesis_tests import ttest_1samp as ttest_1samp
from tracker.scipy.stats.hypothesis_tests import ttest_ind as ttest_ind
from tracker.scipy.stats.hypothesis_tests import ttest_rel as ttest_rel
from tracker.scipy.stats.hypothesis_tests import wasserstein_distance as wasserstein_distance
from tracker.scipy.stats.kde import gaussian_kde as gaussian_kde
from tracker.scipy.stats.multivariate import MultivariateDistribution
from tracker.scipy.stats.multivariate import dirichlet as dirichlet
from tracker.scipy.stats.multivariate import invwishart as invwishart
from tracker.scipy.stats.multivariate import multinomial as multinomial
from tracker.scipy.stats.multivariate import multivariate_normal as multivariate_normal
from tracker.scipy.stats.multivariate import multivariate_t as multivariate_t
from tracker.scipy.stats.multivariate import wishart as wishart

_scipy_fallback = scipy_fallback(
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


for _module in (common, discrete, half_line, intervals, real_line):
    globals().update((name, x) for name, x in vars(_module).items() if isinstance(x, Distribution))
