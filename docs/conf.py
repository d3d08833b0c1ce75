"""The documentation site. `make docs` builds it, runs every cell, and makes warnings errors.

Pages are MyST Markdown; those with `{code-cell}` blocks are notebooks, which myst-nb runs. The
reference is generated from docstrings. `ext/` has what this site adds to Sphinx.
"""

import importlib
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "ext"))

import inventories  # noqa: E402  (in ext/)

_project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
project = "tracker"
author = "the tracker developers"
copyright = f"2026, {author}"
version = release = _project.get("version") or importlib.import_module("tracker").__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "myst_nb",
    "coverage_page",
    "link_names",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "ext", "gallery_header.rst", "gallery/*.ipynb"]
nitpicky = True
default_role = "code"

# Cells run without the user's own IPython profile, and kernels say errors only.
_profile = HERE / "_build" / "ipython" / "profile_default"
_profile.mkdir(parents=True, exist_ok=True)
(_profile / "ipython_kernel_config.py").write_text('c.Application.log_level = "ERROR"\n')
os.environ["IPYTHONDIR"] = str(_profile.parent)

# MyST pages; a cell that raises fails the build.
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # a cell runs again when its page has changed; `make docs` starts anew
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_merge_streams = True

# A page for each function. Types stand in the text of a docstring, not in signatures.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The network's inventories where it is there, else those of the names that our pages use.
intersphinx_mapping = {
    name: (url, (None, str(inventories.write(HERE / "inventories" / f"{name}.txt"))))
    for name, url in {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "scipy": "https://docs.scipy.org/doc/scipy",
    }.items()
}
intersphinx_timeout = 5

# sphinx-gallery runs a copy of the examples: it wants a header beside them, and they save pictures.
# An example without a title (an underlined line at the top) has no page.
TITLE = re.compile(r'^"""\n?.+\n={3,}\n')
EXAMPLES = HERE / "_build" / "examples"
shutil.rmtree(EXAMPLES, ignore_errors=True)
EXAMPLES.mkdir(parents=True)
shutil.copy(HERE / "gallery_header.rst", EXAMPLES / "GALLERY_HEADER.rst")
for path in sorted((HERE.parent / "examples").glob("*.py")):
    if TITLE.match(path.read_text()):
        shutil.copy(path, EXAMPLES)

sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    # Code in examples links to the reference, and a function's page to the examples that use it.
    "reference_url": {"tracker": None},
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("tracker",),
    "show_memory": False,
    "min_reported_time": 1,
}

html_theme = "pydata_sphinx_theme"
html_title = "tracker"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_context = {"default_mode": "auto"}
