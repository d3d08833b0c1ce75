"""`scipy.optimize` on tracked values: roots, fixed points and minima, differentiated in what the
function depends on (`args=` and captured values) by the implicit function theorem
(`scipy/_bridge/implicit.py`). Names that are not defined here are SciPy's own.

`roots.py`           roots of systems and of functions of one number
`minimize.py`        minima; `constraints.py` those under constraints
`least_squares.py`   fits
`linprog.py`         linear problems with active constraints
`legacy.py`          the older interfaces
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy.optimize

from tracker import tree
from tracker.scipy._bridge.dropin import DROP_INS
from tracker.scipy._bridge.fallback import scipy_fallback
from tracker.scipy._bridge.scipy_source import Rebinding
from tracker.scipy.optimize.least_squares import curve_fit as curve_fit
from tracker.scipy.optimize.least_squares import least_squares as least_squares
from tracker.scipy.optimize.legacy import anderson as anderson
from tracker.scipy.optimize.legacy import broyden1 as broyden1
from tracker.scipy.optimize.legacy import broyden2 as broyden2
from tracker.scipy.optimize.legacy import diagbroyden as diagbroyden
from tracker.scipy.optimize.legacy import excitingmixing as excitingmixing
from tracker.scipy.optimize.legacy import fixed_point as fixed_point
from tracker.scipy.optimize.legacy import fmin as fmin
from tracker.scipy.optimize.legacy import fmin_bfgs as fmin_bfgs
from tracker.scipy.optimize.legacy import fmin_cg as fmin_cg
from tracker.scipy.optimize.legacy import fmin_ncg as fmin_ncg
from tracker.scipy.optimize.legacy import fmin_powell as fmin_powell
from tracker.scipy.optimize.legacy import fsolve as fsolve
from tracker.scipy.optimize.legacy import leastsq as leastsq
from tracker.scipy.optimize.legacy import linearmixing as linearmixing
from tracker.scipy.optimize.legacy import newton as newton
from tracker.scipy.optimize.legacy import newton_krylov as newton_krylov
from tracker.scipy.optimize.linprog import linprog as linprog
from tracker.scipy.optimize.linprog import lsq_linear as lsq_linear
from tracker.scipy.optimize.linprog import nnls as nnls
from tracker.scipy.optimize.minimize import approx_fprime as approx_fprime
from tracker.scipy.optimize.minimize import minimize as minimize
from tracker.scipy.optimize.minimize import minimize_scalar as minimize_scalar
from tracker.scipy.optimize.roots import bisect as bisect
from tracker.scipy.optimize.roots import brenth as brenth
from tracker.scipy.optimize.roots import brentq as brentq
from tracker.scipy.optimize.roots import ridder as ridder
from tracker.scipy.optimize.roots import root as root
from tracker.scipy.optimize.roots import root_scalar as root_scalar
from tracker.scipy.optimize.roots import toms748 as toms748

_MINIMIZE = "Use minimize, whose result is differentiable"
if TYPE_CHECKING:
    from scipy.optimize import *  # noqa: F403
else:
    __getattr__, __dir__ = scipy_fallback(
        scipy.optimize,
        constant=("linear_sum_assignment", "quadratic_assignment"),
        hints=dict.fromkeys(("fmin_l_bfgs_b", "fmin_tnc", "fmin_slsqp", "fmin_cobyla"), _MINIMIZE)
        | dict.fromkeys(
            ("basinhopping", "differential_evolution", "dual_annealing", "shgo"), _MINIMIZE
        )
        | {"fminbound": "Use minimize_scalar(bounds=)", "milp": "Use linprog"},
    )

# Bounds and constraints may contain tracked values, as lists may.
for _cls in (
    scipy.optimize.Bounds,
    scipy.optimize.LinearConstraint,
    scipy.optimize.NonlinearConstraint,
):
    tree.register_object(_cls)

Rebinding().drop_in(scipy.optimize, "rosen")
globals().update(DROP_INS[scipy.optimize])
