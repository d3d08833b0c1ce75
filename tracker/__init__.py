"""tracker: automatic differentiation for people who write NumPy."""

import importlib

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
from tracker.drop_ins import drop_in as _drop_in
from tracker.drop_ins import follow_changes as _follow_changes
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
from tracker.ops.indexing import inplace as _mutation  # noqa: F401  (installs indexing)
from tracker.ops.indexing import views as _views  # noqa: F401  (installs other views)
from tracker.plain import set_drop_ins as _set_drop_ins
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


def __getattr__(name: str) -> object:
    """Import checkers, tools and namespaces on first use."""
    if name in ("gradcheck", "ngradient"):
        from tracker import testing

        return getattr(testing, name)
    if name == "export":
        from tracker.jit.runtime.availability import refuse_export, why_unavailable

        if why_unavailable():
            return refuse_export
        from tracker.jit.export import export

        return export
    if name in ("debug", "nn", "numpy", "optim", "scipy", "special", "testing"):
        return importlib.import_module(f"tracker.{name}")
    raise AttributeError(f"module 'tracker' has no attribute {name!r}")


__all__ = [
    "CompileError",
    "ComplexLossError",
    "ConversionError",
    "DegenerateWarning",
    "Grads",
    "GraphUsedError",
    "IRError",
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
    "stack",
    "switch",
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
