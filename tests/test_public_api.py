"""The public names: adding or losing one is a decision, made here."""

import doctest
import importlib
import inspect
import pickle
import pydoc
import tomllib
from pathlib import Path

import fresh_python
import pytest

import tracker
import tracker.scipy

_NAMES = """
    CompileError ComplexLossError ConversionError DegenerateWarning Grads GraphUsedError IRError
    Jitted NonFiniteError NotScalarError NotTrackedError Params RuleError Tracked TrackerError
    UnsupportedError
    back checkpoint collect cond config custom_gradient data diaghessian export fori_loop
    forward forwarddiff frule grad gradcheck gradient hessian hessian_reverse hook hvp
    ignore_derivatives isderiving isleaf istracked jacobian jit jvp ngradient nobacksies
    non_differentiable param pullback pushforward rrule scalar_rule scan showgrad stablehlo
    stack switch to_jax trace track tree update value_and_grad vmap while_loop withgradient
    withjacobian zero_grad
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


MODULES = [
    *("debug", "distributed", "implicit", "interop", "ir", "nn", "numpy", "optim", "scipy"),
    *("sparse", "special", "testing", "tree"),
]


def test_dir_shows_what_is_public():
    assert dir(tracker) == sorted({*NAMES, *MODULES, "__version__"})
    for name in MODULES:
        assert inspect.ismodule(getattr(tracker, name))


@pytest.mark.parametrize(
    "name", ["debug", "distributed", "nn", "optim", "special", "testing", "tree"]
)
def test_modules_show_what_is_public(name):
    module = importlib.import_module(f"tracker.{name}")
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, each) for each in module.__all__)


_WITH_FUNCTIONS = ["debug", "nn", "optim", "sparse", "special", "testing", "tree"]


@pytest.mark.parametrize("module", [tracker, *(getattr(tracker, n) for n in _WITH_FUNCTIONS)])
def test_public_functions_are_pickled_by_name(module):
    for name in set(dir(module)) - {"__version__", *MODULES}:
        x = getattr(module, name)
        if callable(x):
            assert pickle.loads(pickle.dumps(x)) is x, name


@pytest.mark.parametrize("module, theirs", [
    *((importlib.import_module(f"tracker.{name}"), importlib.import_module(name))
      for name in ("numpy", "numpy.fft", "numpy.lib", "numpy.lib.stride_tricks", "numpy.linalg",
                   "numpy.polynomial", "numpy.random", "scipy")),
    *((importlib.import_module(f"tracker.scipy.{name}"), importlib.import_module(f"scipy.{name}"))
      for name in tracker.scipy.SUBMODULES),
], ids=lambda module: module.__name__)  # fmt: skip
def test_drop_ins_show_the_names_of_the_originals(module, theirs):
    shown = dir(module)
    assert set(getattr(theirs, "__all__", shown)) - {"test"} <= set(shown)
    assert {name for name in shown if not name.startswith("_")} <= set(dir(theirs))


def test_names_in_dir_without_scipy_can_be_had():
    code = (
        "import sys; sys.modules['scipy'] = None; import tracker; "
        "[getattr(tracker, name) for name in dir(tracker)]; print('scipy' in dir(tracker))"
    )
    done = fresh_python.run(code)
    assert done.stdout == "False\n"


def test_help_begins_with_what_one_can_type():
    text = pydoc.plain(pydoc.render_doc(tracker)).splitlines()
    start = text.index("DESCRIPTION") + 1
    shown = "\n".join(text[start : start + 24])
    for name in (
        "gradient(f, x",
        "value_and_grad(f)",
        "param(",
        "@jit",
        "custom_gradient",
    ):
        assert name in shown, name


def test_the_version_is_said_once():
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert f"version: {tracker.__version__}" in (root / "CITATION.cff").read_text()
    assert f"## [{tracker.__version__}]" in (root / "CHANGELOG.md").read_text()


def test_jitted_functions_are_what_their_type_says():
    f = tracker.jit(abs)
    assert isinstance(f, tracker.Jitted) and not isinstance(abs, tracker.Jitted)
    public = {name for name in dir(f) if not name.startswith("_")}
    assert public == {name for name in dir(tracker.Jitted) if not name.startswith("_")}


@pytest.mark.parametrize("module", [tracker, importlib.import_module("tracker.jit.type_protocols")])
def test_docstrings_of_the_package_and_of_its_types(module):
    names = {"jit": tracker.jit, "tracker": tracker}
    failed, tried = doctest.testmod(module, extraglobs=names)
    assert tried and not failed


def test_an_unknown_name_is_an_error():
    for module, name in ((tracker, "gradientt"), (tracker.numpy, "sinn"), (tracker.special, "np")):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
