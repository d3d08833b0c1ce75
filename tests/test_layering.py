"""Imports point one way, and the costly ones stay lazy."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "tracker"

# Each layer may import from the layers before it (and from within itself).
LAYERS = [
    {"tracker.errors", "tracker.errstate", "tracker.records", "tracker.versions", "tracker.weak"},
    {"tracker.arraylikes", "tracker.instances", "tracker.liveness", "tracker.snapshots"},
    {"tracker.config", "tracker.tree", "tracker.standing"},
    {"tracker.ir"},
    {"tracker.attribution", "tracker.values"},
    {"tracker.last_uses"},
    {"tracker.deferral"},
    {"tracker.listening"},
    {"tracker.stage"},
    {"tracker.tape"},
    {"tracker.overwriting"},
    {"tracker.tracked", "tracker.leaving"},
    {"tracker.conversions", "tracker.originals"},
    {"tracker.ops"},
    {"tracker.attributes", "tracker.mutation", "tracker.draws", "tracker.recorders"},
    {"tracker.views"},
    {"tracker.arrivals", "tracker.origins"},
    {"tracker.reverse"},
    {"tracker.forward", "tracker.replay"},
    {"tracker.leaves"},
    {"tracker.params"},
    {"tracker.wrapping"},
    {"tracker.pullbacks", "tracker.gradients"},
    {"tracker.call_ops"},
    {"tracker.differences", "tracker.calls", "tracker.rules"},
    {"tracker.testing"},
    {"tracker.cuts", "tracker.recompute"},
    {"tracker.jit"},
    {"tracker.control"},
    {"tracker.vmapping"},
    {"tracker.jacobians"},
    {"tracker.numpy"},
    {"tracker.special", "tracker.scipy", "tracker.nn", "tracker.optim", "tracker.debug"},
    {"tracker"},
]
# Inside the compiler: lower files never import higher ones.
JIT_LAYERS = [
    {
        "borrowed",
        "caches",
        "collecting",
        "probing",
        "vmath",
        "portable",
        "sharing",
        "uses",
        "division",
        "rare",
        "compared",
        "lent",
        "signature",
        "conditions",
        "strides",
        "structs",
        "writer",
        "index",
        "interrupts",
    },
    {"locking", "fastcode", "support"},
    {"engine"},
    {"orders", "unusual"},
    {"strips"},
    {"libraries", "pure", "reflection"},
    {"answers", "asking", "installed", "opaque"},
    {"mentioned", "raised"},
    {"places", "classes", "reads", "hidden", "putting", "inspection", "standins", "varying"},
    {"inputs", "held"},
    {"lasting"},
    {"state"},
    {"scalars"},
    {"bits", "networks"},
    {"emit", "arcs", "complexes", "building", "arguments", "results", "cache"},
    {"writes", "updates", "staging"},
    {"entry", "memory", "lifting", "dispatch"},
    {"native"},
    {"callable", "blas", "parallel"},
    {"callbacks", "lending", "sorting", "selecting", "searching", "dense"},
    {"layout"},
    {"lowered", "chains", "pausing", "overwriting"},
    {"rows", "running", "modules", "routines", "program"},
    {"inplace", "accounts"},
    {"storing", "guests"},
    {"weighing"},
    {"plan"},
    {"multiply", "rowcode"},
    {"products", "partition", "structured", "scratch"},
    {"taking"},
    {"folds", "scattering", "flat"},
    {"elements"},
    {"loops"},
    {"registers"},
    {"unrolled"},
    {"lower"},
    {"carrying", "relinking"},
    {"pipeline", "recall", "binding", "explain"},
    {"executor", "compiling"},
    {"background"},
    {"families"},
    {"first_calls", "odd_calls", "traces"},
    {"jitted"},
    {"kept"},
    {"decorator", "export"},
]


@functools.cache
def modules():
    return sorted(ROOT.rglob("*.py"))


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def known_modules():
    return {name_of(p) for p in modules()}


@functools.cache
def imports(path):
    """(module, is it inside a function, is it for types only) of every import."""
    return list(_imports(path))


def _imports(path):
    tree = ast.parse(path.read_text())
    known = known_modules()
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [
                f"{node.module}.{alias.name}"
                if f"{node.module}.{alias.name}" in known
                else node.module
                for alias in node.names
            ]
        else:
            continue
        for name in names:
            yield name, id(node) in inner, id(node) in typing_only


def layer(module, layers, prefix=""):
    """The number of the layer whose entry is the longest prefix of the module's name."""
    best, found = "", None
    for number, group in enumerate(layers):
        for entry in group:
            full = prefix + entry
            if (module == full or module.startswith(full + ".")) and len(full) > len(best):
                best, found = full, number
    return found


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_one_way(path):
    module = name_of(path)
    for target, _, typing_only in imports(path):
        if not target.startswith("tracker") or typing_only:
            continue
        assert layer(target, LAYERS) <= layer(module, LAYERS), f"{module} imports {target}"
        if module.startswith("tracker.jit.") and target.startswith("tracker.jit."):
            mine = layer(module, JIT_LAYERS, "tracker.jit.")
            theirs = layer(target, JIT_LAYERS, "tracker.jit.")
            assert mine is not None, f"{module} has no layer; give it one in JIT_LAYERS"
            assert theirs is not None, f"{target} has no layer; give it one in JIT_LAYERS"
            assert theirs <= mine, f"{module} imports {target}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_llvmlite_and_ctypes_have_their_place(path):
    places = {
        "llvmlite": {"tracker.jit.engine"},
        "ctypes": {"tracker.jit.native", "tracker.jit.callable", "tracker.jit.lent"},
    }
    for target, _, _ in imports(path):
        for package, allowed in places.items():
            if target.split(".")[0] == package:
                assert name_of(path) in allowed


def test_late_imports_are_only_those_that_spare_others_the_time():
    """An import inside a function hides a cycle, unless it is what keeps `import tracker` light, or
    the first call of a jitted function."""
    lazy = {
        "tracker",
        "tracker.control.stepping",
        "tracker.draws",
        "tracker.instances",  # where the libraries are, is asked when a class is first looked at
        "tracker.jit.blas",  # another process is asked about a library that somebody names
        "tracker.jit.decorator",
        "tracker.jit.jitted",
        "tracker.jit.traces",
        "tracker.nn.activations",  # gelu without approximation takes SciPy's erfc
        "tracker.ops.ufuncs",
    }
    for path in modules():
        if name_of(path) in lazy:
            continue
        late = [target for target, inner, _ in imports(path) if inner]
        assert not late, f"{name_of(path)} imports {late} inside a function"


def test_the_compiler_names_no_op():
    """The compiler asks what kind of loop an op is, never which op it is."""
    from tracker.ir.op import OPS

    words = {name for name in OPS if len(name) > 3}
    for path in sorted((ROOT / "jit").rglob("*.py")):
        if "vmath" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and "op.name" in ast.unparse(node.left):
                strings = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                assert not words.intersection(map(str, strings)), f"{path}: {ast.unparse(node)}"


def test_the_filters_of_warnings_are_the_users():
    """They belong to the process: a thread that compiles and sets them aside for a while may put
    back what another one did."""
    users = {
        "tracker.differences",
        "tracker.testing",
        "tracker.attribution",
    }  # called by users; as they are, at import
    for path in modules():
        if name_of(path) not in users:
            called = re.search(
                r"warnings\.(catch_warnings|simplefilter|\w*filter\w*)", path.read_text()
            )
            assert called is None, f"{path}: {called[0]}"


def test_import_is_light():
    code = (
        "import sys, tracker; "
        "print([m for m in ('llvmlite', 'scipy', 'jax', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
