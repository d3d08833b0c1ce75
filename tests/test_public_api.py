"""The public names: adding or losing one is a decision, made here."""

import inspect

import pytest

import tracker

NAMES = [
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


def test_the_names_are_these():
    assert sorted(tracker.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name):
    thing = getattr(tracker, name)
    assert inspect.getdoc(thing), name


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("Error")])
def test_errors_are_what_a_caller_would_catch(name):
    error = getattr(tracker, name)
    assert issubclass(error, tracker.TrackerError)
    if error is not tracker.TrackerError:
        builtin = [base for base in error.__mro__ if base.__module__ == "builtins"]
        assert {TypeError, ValueError, RuntimeError}.intersection(builtin)
