# Each target does all of its own set-up: a virtual environment and pinned installs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Constraints also reach pip's build environments, so nothing unpinned is ever pulled in.
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet -c constraints.txt

.PHONY: setup demo test lint bench clean

setup: $(VENV)/.installed-test

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/halfwave demo

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n 2

bench: $(VENV)/.installed-test
	$(BIN)/halfwave bench

clean:
	rm -rf $(VENV) runs data
