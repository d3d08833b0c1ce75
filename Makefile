# Everything a person needs: `make demo` shows the library at work, `make test` proves it.
# Both make their own virtual environment (.venv) and need nothing but Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check smoke docs dist bench bench-report bench-check memcheck guarded deep clean

demo: $(VENV)/.examples
	$(BIN)/python examples/digits.py

# What takes one processor goes side by side, then what takes two.
test: $(VENV)/.test
	$(MAKE) -j 2 check smoke
	$(BIN)/python -m pytest -n 2 tests

# The wheel on all Pythons that this machine has, of those that are supported; on one of them with
# the oldest packages that pyproject.toml admits.
OLDEST := $(shell sed -n 's/^dependencies = //p; s/^scipy = //p' pyproject.toml | tr -d '[],' | sed 's/>=/==/g')

smoke:
	@for version in 3.11 3.12 3.13; do \
	  found=; \
	  for python in python$$version $$HOME/.pyenv/versions/$$version.*/bin/python; do \
	    if [ -z "$$found" ] && $$python -c "" 2>/dev/null; then found=$$python; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo "smoke: no Python $$version here"; continue; fi; \
	  $$found -m venv $(VENV)-$$version && \
	  $(VENV)-$$version/bin/python -m pip install --quiet --disable-pip-version-check '.[scipy]' \
	    $$([ $$version = 3.12 ] && echo $(OLDEST)) && \
	  PYTHONPATH=tests/common $(VENV)-$$version/bin/python tests/jit/smoke_native.py && \
	  $(VENV)-$$version/bin/python tests/jit/smoke_jit.py && \
	  $(VENV)-$$version/bin/python tests/scipy/smoke_scipy.py || exit 1; \
	done

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The sdist and the wheel, checked, and the tests that read files run from the unpacked sdist.
dist: $(VENV)/.dist $(VENV)/.test
	rm -rf dist && $(BIN)/python -m build --quiet && $(BIN)/twine check --strict dist/*
	rm -rf $(VENV)/sdist && mkdir $(VENV)/sdist
	tar -xzf dist/*.tar.gz -C $(VENV)/sdist --strip-components=1
	cd $(VENV)/sdist && ../bin/python -m pytest tests/test_*.py tests/documentation tests/typing

# The native calls under valgrind: Linux only, and minutes long.
memcheck: $(VENV)/.test
	$(BIN)/python tests/jit/memcheck.py

# The compiler's tests with every array between pages that nobody may touch: Linux only.
guarded: $(VENV)/.test
	PYTHONPATH=tests/common $(BIN)/python -m pytest -n 2 -p guard_pages tests/jit tests/ops

# A thousand random programs for each property and every combination of crossed values
# (tests/common/pairwise_parameters.py), arrays between guard pages as above.
deep: $(VENV)/.test
	PYTHONPATH=tests/common TRACKER_HYPOTHESIS=deep $(BIN)/python -m pytest -n 2 -p guard_pages -m "hypothesis or crossed" tests

# The site, in docs/_build/html, in an environment of its own: every cell runs; a warning (a broken
# link, an unknown name) is an error. What is generated is made anew.
DOCS := $(VENV)-docs

docs: $(DOCS)/.docs
	rm -rf docs/_build docs/gallery docs/reference/generated
	$(DOCS)/bin/python -m sphinx -W --keep-going -n -q docs docs/_build/html

$(DOCS)/.docs: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

# Peers (jax, torch, autograd, C++) take part where they are installed: `pip install '.[peers]'`.
# BENCH="--quick rosenbrock" runs less.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py $(BENCH)

# README's table, the page on performance and its plots, from the results of `make bench`.
bench-report: $(VENV)/.bench
	$(BIN)/python benchmarks/report.py

# A new run beside the results in the repository; fails if anything became slower.
bench-check: $(VENV)/.bench
	$(BIN)/python benchmarks/check.py $(BENCH)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,examples]'
	touch $@

$(VENV)/.examples: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples]'
	touch $@

$(VENV)/.dist: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	touch $@

$(VENV)/.bench: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) $(DOCS) $(VENV)-3.* docs/_build docs/gallery docs/reference/generated build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
