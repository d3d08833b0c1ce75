"""The pages in docs/ and the examples in docstrings run, and give what they show."""

import doctest
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import page_blocks
import pytest
import scipy.optimize  # noqa: F401  (imported here, because it changes warning filters)

import tracker

for _name in ("torch", "sympy", "pytensor", "distributed", "ray"):  # they change filters, too
    if importlib.util.find_spec(_name):
        importlib.import_module(_name)

DOCS = Path(__file__).parents[2] / "docs"
GENERATED = {"_build", "gallery", "generated"}
PAGES = [
    path.relative_to(DOCS).as_posix()
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")])
    if not GENERATED & set(path.relative_to(DOCS).parts) and [*page_blocks.blocks(path.read_text())]
]
MODULES = [
    "tracker.config", "tracker.optim.first_order", "tracker.optim.scipy_minimize",
    "tracker.support.numpy_version", "tracker.support.shown_text", "tracker.jit.api",
    "tracker.autodiff.custom_rule_calls", "tracker.autodiff.stop_gradient", "tracker.debug",
    "tracker.debug.draw", "tracker.debug.nan_check", "tracker.debug.tape",
    "tracker.autodiff.gradients", "tracker.transforms.jacobians", "tracker.autodiff.leaves",
    "tracker.autodiff.params", "tracker.autodiff.pullbacks", "tracker.autodiff.checkpoint",
    "tracker.autodiff.custom_rules", "tracker.testing", "tracker.tree", "tracker.control",
    "tracker.transforms.vmap", "tracker.tape.tracked", "tracker.jit.api",
    "tracker.nn.activations", "tracker.nn.convolution", "tracker.nn.layers", "tracker.distributed",
    "tracker.implicit", "tracker.optim.quasi_newton", "tracker.jit.export.object_file",
]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert page_blocks.run((DOCS / page).read_text(), str(DOCS / page))
    if "joblib" in sys.modules:  # its pool of processes waits for more
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page):
    if GENERATED & set(page.relative_to(DOCS).parts):
        return
    for link in re.findall(r"\]\(([^):#]+)[^)]*\)", page.read_text()):
        if link != "gallery/index":  # which sphinx-gallery writes
            assert (page.parent / link).is_file(), link


def test_a_page_that_shows_another_value_fails():
    page_blocks.run("```python\nx = 1  # prose\nx + 1  # 2\n```\n")
    with pytest.raises(AssertionError, match=r"page:4: x \+ 1"):
        page_blocks.run("\n```python\nx = 1\nx + 1   # 3\n```\n")
    assert page_blocks.run("```python\nimport no_such_library\n```\n") == 0


def test_every_derivative_has_its_example():
    text = (DOCS / "reference" / "derivatives.md").read_text()
    others = {"config", "export", "jit", "numpy", "trace", "tree", "nn", "optim", "scipy"}
    others |= {"to_jax", "stablehlo"}
    for name in tracker.__all__:
        if name[0].islower() and name not in others:
            assert re.search(rf"\b{name}\(|@tracker\.{name}\b", text), name


def listed():
    """The functions and classes that have a page of the reference, by their full names."""
    for path in sorted((DOCS / "reference").glob("*.rst")):
        module = ""
        for line in path.read_text().splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split()[-1]
            elif re.fullmatch(r"   [A-Za-z_]\w*", line):
                yield f"{module}.{line.strip()}"


def test_every_public_function_has_a_page():
    by_hand = (DOCS / "reference" / "jitted.rst").read_text()
    pages = {*listed(), *re.findall(r"^\.\. py:class:: (\S+)", by_hand, re.MULTILINE)}
    for space in (tracker, tracker.nn, tracker.optim, tracker.debug):
        for name in space.__all__:
            thing = getattr(space, name)
            if callable(thing) and not (isinstance(thing, type) and issubclass(thing, Exception)):
                assert f"{space.__name__}.{name}" in pages


@pytest.mark.parametrize("name", sorted(listed()))
def test_docstring_names_all_parameters_and_has_an_example(name):
    module, _, own = name.rpartition(".")
    thing = getattr(importlib.import_module(module), own)
    if isinstance(thing, type):
        return  # its fields are described in its own words
    section = re.compile(r"^(\w[\w ]+)\n-+\n(.*?)(?=^\w[\w ]+\n---|\Z)", re.MULTILINE | re.DOTALL)
    sections = dict(section.findall(inspect.getdoc(thing)))
    heads = re.findall(r"^(\S.*?)(?: : .*)?$", sections.get("Parameters", ""), re.MULTILINE)
    described = {part.strip("* ") for head in heads for part in head.split(",")}
    assert described == set(inspect.signature(thing).parameters)
    assert ">>> " in sections.get("Examples", "") or own in ("check_op", "parse", "verify")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, tmp_path):
    module = importlib.import_module(name)
    names = {"np": np, "tracker": tracker, "path": tmp_path / "picture.svg"}
    names.update((n, getattr(tracker, n)) for n in tracker.__all__)
    names.update(vars(module))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, _ = doctest.testmod(module, extraglobs=names, optionflags=flags)
    assert not failed
