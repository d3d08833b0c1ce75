"""The public names: adding or losing one is a decision, made here."""

import inspect

import pytest

import tracker

_NAMES = """
    CompileError ComplexLossError ConversionError DegenerateWarning Grads GraphUsedError IRError
    NonFiniteError NotScalarError NotTrackedError Params RuleError Tracked TrackerError
    UnsupportedError
    back checkpoint collect cond config custom_gradient data diaghessian export fori_loop
    forward forwarddiff frule grad gradcheck gradient hessian hessian_reverse hook hvp
    ignore_derivatives isderiving isleaf istracked jacobian jit jvp ngradient nobacksies
    non_differentiable param pullback pushforward rrule scalar_rule scan showgrad stack switch
    trace track tree update value_and_grad vmap while_loop withgradient withjacobian zero_grad
"""
NAMES = _NAMES.split()


def test_the_names_are_these():
    assert sorted(tracker.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name):
    thing = getattr(tracker, name)
    assert inspect.getdoc(thing), name


@pytest.mark.parametrize("base, names", [
    (TypeError, "ConversionError NotScalarError ComplexLossError UnsupportedError"),
    (ValueError, "NonFiniteError NotTrackedError RuleError IRError"),
    (RuntimeError, "GraphUsedError CompileError"), (NotImplementedError, "UnsupportedError"),
])  # fmt: skip
def test_errors_are_the_builtins_that_a_caller_would_catch(base, names):
    for name in names.split():
        assert issubclass(getattr(tracker, name), tracker.TrackerError)
        assert issubclass(getattr(tracker, name), base)


def test_every_error_has_a_builtin_base():
    for name in NAMES:
        if name.endswith("Error") and name != "TrackerError":
            assert issubclass(getattr(tracker, name), (TypeError, ValueError, RuntimeError))
