"""Automatic differentiation for people who write NumPy.

Derivatives of functions of arrays, numbers and structures of them:

    gradient(f, x, y)          a tuple, one gradient per argument
    withgradient(f, x)         the value, too: (val, grad)
    value_and_grad(f)          a function that returns (value, gradient)
    jacobian, hessian, hvp     matrices, and products with them
    pullback, pushforward      linear maps; jvp: one directional derivative
    vmap(f), checkpoint(f, x)  all rows at once; less memory
    gradcheck(f, x)            compares derivatives with central differences

The same on values: x = param([1.0, 2.0]); y = f(x); back(y); grad(x)

Machine code: decorate f with @jit; f.explain(x) tells what runs, f.ir(x) is the program.

Rules of your own: custom_gradient, rrule, frule, non_differentiable, ignore_derivatives.
Control flow that stays structured: scan, fori_loop, while_loop, cond, switch.
Modules: nn, optim, implicit, sparse, special, distributed, tree, debug, testing, interop; numpy
and scipy, which are drop-ins.
Other libraries: to_jax, stablehlo; interop wraps functions of theirs, and for them.

>>> import numpy as np
>>> import tracker
>>> tracker.gradient(lambda x: np.sum(x**2), [1.0, 2.0])
(array([2., 4.]),)

help(tracker.gradient) and so on have examples. Every error is a TrackerError.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tracker import array_attributes as _attributes  # noqa: F401  (installs attributes)
from tracker import tree
from tracker.autodiff.checkpoint import checkpoint, forwarddiff
from tracker.autodiff.custom_rules import (
    collect,
    custom_gradient,
    frule,
    nobacksies,
    rrule,
    scalar_rule,
    stack,
    track,
)
from tracker.autodiff.gradients import gradient, value_and_grad, withgradient
from tracker.autodiff.leaves import back, grad, isleaf, istracked, param, update, zero_grad
from tracker.autodiff.params import Grads, Params
from tracker.autodiff.pullbacks import forward, jvp, pullback, pushforward
from tracker.autodiff.stop_gradient import (
    data,
    hook,
    ignore_derivatives,
    isderiving,
    non_differentiable,
    showgrad,
)
from tracker.config import config
from tracker.control import cond, fori_loop, scan, switch, while_loop
from tracker.drop_in_table import drop_in as _drop_in
from tracker.drop_in_table import follow_changes as _follow_changes
from tracker.errors import (
    CompileError,
    ComplexLossError,
    ConversionError,
    DegenerateWarning,
    GraphUsedError,
    IRError,
    NonFiniteError,
    NotScalarError,
    NotTrackedError,
    RuleError,
    TrackerError,
    UnsupportedError,
)
from tracker.ir.graph import DrawnFunction as _DrawnFunction
from tracker.jit.api import jit, trace
from tracker.jit.type_protocols import Jitted
from tracker.ops.indexing import view_functions as _views  # noqa: F401  (installs other views)
from tracker.ops.indexing import views_and_writes as _mutation  # noqa: F401  (installs indexing)
from tracker.rebinding import set_drop_ins as _set_drop_ins
from tracker.tape.tracked import Tracked
from tracker.transforms.jacobians import (
    diaghessian,
    hessian,
    hessian_reverse,
    hvp,
    jacobian,
    withjacobian,
)
from tracker.transforms.vmap import vmap

_set_drop_ins(_drop_in, _follow_changes)
_DrawnFunction.drawer = lambda f: importlib.import_module("tracker.debug.draw").notebook_svg(f)


__version__ = "0.1.0"
_MODULES = (
    *("debug", "distributed", "implicit", "interop", "ir", "nn", "numpy", "optim", "scipy"),
    *("sparse", "special", "testing", "tree"),
)

if TYPE_CHECKING:
    from tracker import debug as debug
    from tracker import distributed as distributed
    from tracker import implicit as implicit
    from tracker import interop as interop
    from tracker import ir as ir
    from tracker import nn as nn
    from tracker import numpy as numpy
    from tracker import optim as optim
    from tracker import scipy as scipy
    from tracker import sparse as sparse
    from tracker import special as special
    from tracker import testing as testing
    from tracker.interop import stablehlo, to_jax
    from tracker.jit.export.object_file import export
    from tracker.testing import gradcheck, ngradient
else:

    def __getattr__(name: str) -> Any:
        """Import checkers, tools and namespaces on first use."""
        if name in ("gradcheck", "ngradient"):
            from tracker import testing

            return getattr(testing, name)
        if name in ("stablehlo", "to_jax"):
            from tracker import interop

            return getattr(interop, name)
        if name == "export":
            from tracker.jit.runtime.availability import refuse_export, why_unavailable

            if why_unavailable():
                return refuse_export
            from tracker.jit.export.object_file import export

            return export
        if name in _MODULES:
            return importlib.import_module(f"tracker.{name}")
        raise AttributeError(f"module 'tracker' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names; `scipy` and `sparse` where SciPy is installed."""
    import importlib.util

    names = {*__all__, *_MODULES, "__version__"}
    return sorted(names if importlib.util.find_spec("scipy") else names - {"scipy", "sparse"})


__all__ = [
    "CompileError",
    "ComplexLossError",
    "ConversionError",
    "DegenerateWarning",
    "Grads",
    "GraphUsedError",
    "IRError",
    "Jitted",
    "NonFiniteError",
    "NotScalarError",
    "NotTrackedError",
    "Params",
    "RuleError",
    "Tracked",
    "TrackerError",
    "UnsupportedError",
    "back",
    "checkpoint",
    "collect",
    "cond",
    "config",
    "custom_gradient",
    "data",
    "diaghessian",
    "export",
    "fori_loop",
    "forward",
    "forwarddiff",
    "frule",
    "grad",
    "gradcheck",
    "gradient",
    "hessian",
    "hessian_reverse",
    "hook",
    "hvp",
    "ignore_derivatives",
    "isderiving",
    "isleaf",
    "istracked",
    "jacobian",
    "jit",
    "jvp",
    "ngradient",
    "nobacksies",
    "non_differentiable",
    "param",
    "pullback",
    "pushforward",
    "rrule",
    "scalar_rule",
    "scan",
    "showgrad",
    "stablehlo",
    "stack",
    "switch",
    "to_jax",
    "trace",
    "track",
    "tree",
    "update",
    "value_and_grad",
    "vmap",
    "while_loop",
    "withgradient",
    "withjacobian",
    "zero_grad",
]
