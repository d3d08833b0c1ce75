"""Imports point one way, and the costly ones stay lazy."""

import ast
import collections
import functools
import graphlib
import re
from pathlib import Path

import fresh_python

ROOT = Path(__file__).parent.parent / "tracker"

# Each floor is a set of rooms (folders, or files at the top). A room imports only rooms of the
# floors before its own, and itself: the longest name that begins a module's name is its room.
FLOORS = [
    {"tracker.user_frames"},
    {"tracker.errors"},
    {"tracker.support"},
    {"tracker.config", "tracker.tree"},
    {"tracker.ir"},
    {"tracker.ir.passes"},
    {"tracker.ir.passes.loops"},
    {"tracker.tape"},
    {"tracker.rebinding"},
    {"tracker.ops.declare"},
    {"tracker.ops", "tracker.array_attributes"},
    {"tracker.random"},
    {"tracker.autodiff"},
    {"tracker.testing"},
    {"tracker.jit.vmath", "tracker.jit.llvm"},
    {"tracker.jit.guards"},
    {"tracker.jit.runtime", "tracker.jit.discovery"},
    {"tracker.jit.abi", "tracker.jit.scalar", "tracker.jit.tracing"},
    {"tracker.jit.schedule"},
    {"tracker.jit.lapack", "tracker.jit.codegen"},
    {"tracker.jit.kernels"},
    {"tracker.jit.pipeline"},
    {"tracker.jit.dispatch"},
    {"tracker.jit"},
    {"tracker.jit.export"},
    {"tracker.control"},
    {"tracker.transforms"},
    {"tracker.implicit"},
    {"tracker.numpy", "tracker.debug", "tracker.nn", "tracker.optim"},
    {*("tracker.scipy", "tracker.special"), *("tracker.sparse", "tracker.distributed")}
    | {"tracker.interop"},
    {"tracker"},
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
def tree_of(path):
    return ast.parse(path.read_text())


@functools.cache
def imports(path):
    """(module, is it inside a function, is it for types only) of every import."""
    return list(_imports(tree_of(path), False, False))


def _imports(node, inner, typing_only):
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, inner, typing_only
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            yield name if name in known_modules() else node.module, inner, typing_only
    elif not isinstance(node, ast.expr):
        inner |= isinstance(node, ast.FunctionDef)
        typing_only |= isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, inner, typing_only)


@functools.cache
def room_of(module):
    """The floor and the name of the room that a module is in."""
    rooms = [(len(room), floor, room) for floor, rooms in enumerate(FLOORS) for room in rooms]
    _, floor, room = max(r for r in rooms if f"{module}.".startswith(f"{r[2]}."))
    return floor, room


def test_imports_point_one_way():
    wrong = []
    for path in modules():
        floor, room = room_of(name_of(path))
        for target, _, _ in imports(path):
            if target.startswith("tracker"):
                below, theirs = room_of(target)
                if theirs != room and below >= floor:
                    wrong.append(f"{name_of(path)} imports {target}")
    assert not wrong


def test_llvmlite_and_ctypes_have_their_place():
    places = {
        "llvmlite": {"tracker.jit.llvm.engine"},
        "ctypes": {
            "tracker.jit.abi.loader",
            "tracker.jit.runtime.c_symbols",
            "tracker.jit.abi.native_callable",
            "tracker.jit.guards.class_guard",
            "tracker.jit.llvm.gdb",
            "tracker.support.frames.cpython",
            "tracker.support.frames.value_stack",
        },
    }
    found = {(target.split(".")[0], name_of(p)) for p in modules() for target, *_ in imports(p)}
    for package, allowed in places.items():
        assert {name for imported, name in found if imported == package} <= allowed


def test_late_imports_are_only_those_that_spare_others_the_time():
    """An import inside a function hides a cycle, unless it is what keeps `import tracker` light, or
    the first call of a jitted function."""
    lazy = {
        "tracker",
        "tracker.control.step_runner",
        "tracker.random.draw_ops",
        "tracker.jit.runtime.blas",  # another process is asked about a library that somebody names
        "tracker.jit.api",
        "tracker.jit.dispatch.jitted",
        "tracker.jit.dispatch.trace_policy",
        "tracker.nn.activations",  # gelu without approximation takes SciPy's erfc
        "tracker.ops.ufunc_protocol",
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
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare) and "op.name" in ast.unparse(node.left):
                strings = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                assert not words.intersection(map(str, strings)), f"{path}: {ast.unparse(node)}"


def test_the_filters_of_warnings_are_the_users():
    """They belong to the process: a thread that compiles and sets them aside for a while may put
    back what another one did."""
    users = {
        "tracker.autodiff.finite_differences",
        "tracker.testing",
        "tracker.support.errstate",
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
    out = fresh_python.run(code)
    assert out.stdout.strip() == "[]"


def test_modules_have_no_circles():
    """Modules can be imported in any order; imports for types alone stay within a room."""
    below = {
        name_of(path): {
            x for x, late, typing in imports(path) if x in known_modules() and not (late or typing)
        }
        - {name_of(path)}
        for path in modules()
    }
    graphlib.TopologicalSorter(below).prepare()  # CycleError names a circle


def test_what_is_outside_of_the_compiler_imports_what_it_offers():
    for path in modules():
        module = name_of(path)
        if module != "tracker" and not module.startswith("tracker.jit"):
            inside = [x for x, *_ in imports(path) if x.startswith("tracker.jit.")]
            assert set(inside) <= {"tracker.jit.tracing"}, f"{module} imports {inside}"


def test_a_class_name_means_one_class():
    defined = collections.defaultdict(set)
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                defined[node.name].add(name_of(path))
    assert not {name: found for name, found in defined.items() if len(found) > 1}
