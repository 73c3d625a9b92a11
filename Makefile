# Each target does all of its own set-up: a virtual environment and pinned installs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Constraints also reach pip's build environments, so nothing unpinned is ever pulled in.
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet -c constraints.txt

.PHONY: setup demo test lint docs wheel-check mutations bench clean torture soak sbom

setup: $(VENV)/.installed-test

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[export]'
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

# Once on this machine, and what depends on it (`numerics/hardware.py`) once more as on the other kind: a CPU that
# multiplies bf16 where this one does not (or the other way round), and two threads. A file's tests stay in one process,
# so that what they share (a trained run, a built site, processes that were started) is made once; long files go first.
test: lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder
	HALFWAVE_CPU_MULTIPLIES=other OMP_NUM_THREADS=2 $(BIN)/python -m pytest -q -m hardware -n 2 --dist loadfile
	$(BIN)/python benchmarks/mutate_bounds.py --short

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[docs]'
	@touch $@

# The site: tutorials executed (those whose source or library changed), examples of the reference run as doctests, pages
# built without a warning, every link checked. build/site/index.html opens without a server and without a network.
docs: $(VENV)/.installed-docs
	$(BIN)/python docs/run_tutorials.py
	$(BIN)/python docs/run_doctests.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python docs/check_links.py build/site

# Wheel and sdist, installed without constraints in a fresh environment outside the repository.
wheel-check: $(VENV)/.installed-test
	$(BIN)/python benchmarks/fresh_install.py --extras export hub docs --demo

# Every term of every bound taken out of the source, one by one: a test has to fail for each. Minutes; `test` does a fifth.
mutations: $(VENV)/.installed-test
	$(BIN)/python benchmarks/mutate_bounds.py

# Before a release: damaged and forged files, kills, full disks, interrupts, several writers; minutes to hours, seeded.
# Counts go to results/torture.json, and from there into docs/trust.md.
torture: $(VENV)/.installed-test
	$(BIN)/python benchmarks/torture.py
	$(BIN)/python docs/trust.py

# 10,000 updates with the heap watched, and every reader opened a thousand times.
soak: $(VENV)/.installed-test
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python docs/trust.py

# The bill of materials of what a user gets, from what is installed.
sbom: $(VENV)/.installed-test
	$(BIN)/python benchmarks/bill_of_materials.py

bench: $(VENV)/.installed-test
	$(BIN)/halfwave bench

clean:
	rm -rf $(VENV) runs data
