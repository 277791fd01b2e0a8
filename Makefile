# `make` lists the targets. Each sets up its own virtual environment (.venv) when it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOWEST := .venv-lowest
MATRIX := 3.11 3.12 3.13
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-lowest test-matrix coverage size check format results docs dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[dev,all]'
	touch $(STAMP)

install: $(STAMP)  ## install pidual and what it is developed with into .venv

demo: $(STAMP)  ## the main job on data that comes with the package, ending in a report
	$(BIN)/pidual demo

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest -n logical --dist loadfile

test-slow: $(STAMP)  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet -r constraints-lowest.txt --editable .
	touch $@

test-lowest: $(LOWEST)/.installed  ## run the tests with the lowest versions that are allowed
	$(LOWEST)/bin/python -m pytest -n logical --dist loadfile

test-matrix:  ## run the tests on each of Python 3.11, 3.12 and 3.13 that is on the path
	@for version in $(MATRIX); do \
	  if python$$version --version > /dev/null 2>&1; then \
	    echo "Python $$version, in .venv-$$version:"; \
	    $(MAKE) --no-print-directory PYTHON=python$$version VENV=.venv-$$version test || failed="$$failed $$version"; \
	  else echo "Python $$version: not on the path"; fi; \
	done; \
	test -z "$$failed" || { echo "failed on Python$$failed"; exit 1; }

coverage: $(STAMP)  ## run the tests and say which lines of the package they do not reach
	$(BIN)/python -m pytest -n logical --dist loadfile --cov --cov-report=term-missing:skip-covered

size: $(STAMP)  ## print how large code, tests and docs are, and what one small fit walks through
	$(BIN)/python benchmarks/size.py

check: $(STAMP)  ## lint and type-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)  ## format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.peers: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[peers]'
	touch $@

results: $(VENV)/.peers  ## make every result file again (about two days on one core; goes on where it was stopped)
	$(BIN)/python benchmarks/make_results.py

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt --editable '.[docs]'
	touch $@

build/katex/.installed:
	npm install --silent --no-save --prefix build/katex katex@0.16.22
	touch $@

docs: $(VENV)/.docs build/katex/.installed  ## write the pages that the code and the results make, and build the site in build/site
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/start_pages.py
	$(BIN)/python docs/notebook_hook.py
	$(BIN)/python benchmarks/tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

dist: $(STAMP)  ## build wheel and source distribution in dist; ADDRESS=https://... of the repository makes links absolute
	$(BIN)/python -m pip install --quiet -c constraints.txt build
	$(BIN)/python $(if $(ADDRESS),docs/address.py $(ADDRESS),-m build)

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(LOWEST) $(MATRIX:%=.venv-%) .coverage .pytest_cache .mypy_cache .ruff_cache build dist
