# `make demo` and `make test` set up all they need in .venv; nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin
QUESTIONS ?= 600
PART ?= 1/1
SEED ?= 0
# Plugins by name: pytest would rewrite the assertions of every package that brings one, in each worker.
PYTEST := $(BIN)/pytest --disable-plugin-autoload -p xdist -p timeout -p pytest_socket -p _hypothesis_pytestplugin --timeout 600
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: help demo test lint format tables mutants fire new-examples docs clean

help:
	@echo "make demo    set up, then TRACE against the baselines on a small synthetic bench, offline"
	@echo "make test    set up, then run all tests"
	@echo "make lint    style, types, layering"
	@echo "make mutants would the tests notice? one small change of the code at a time (PART=1/10 SEED=7: a tenth of them, by chance)"
	@echo "make fire    a short campaign of kills, full disks, damaged files and lying servers (perf/fire.py); about three minutes"
	@echo "make new-examples  the property tests on examples that they have not seen"
	@echo "make docs    the documentation as a site in out/site, offline; fails on a broken link"
	@echo "make tables  every table of the paper on the synthetic bench (QUESTIONS=600: about three quarters of an hour on two cores)"

.venv/.user: pyproject.toml constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) bash tools/setup.sh '.[video,glance,figures,web]' $@

.venv/.dev: pyproject.toml constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) bash tools/setup.sh '.[dev]' $@
	touch .venv/.user # the demo needs nothing more

demo: .venv/.user
	$(BIN)/trace-ves demo

# The tests in a browser run among the others: they mostly wait. A file stays with one worker.
# Tests start the program hundreds of times: compiled before, it starts faster where Python may not keep bytecode itself.
test: .venv/.dev
	$(BIN)/python -m compileall -q src
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder

fire: .venv/.dev
	$(BIN)/python perf/fire.py --short --seed 1

new-examples: .venv/.dev
	HYPOTHESIS_PROFILE=random $(PYTEST) -q -m hypothesis -n $(WORKERS)

docs:
	PYTHON=$(PYTHON) bash tools/docs.sh

tables: .venv/.user
	$(BIN)/trace-ves synth out/twin-seed106 --questions $(QUESTIONS) --seed 106
	$(BIN)/python tools/tables.py out/twin-seed106 --backbone glance --out out/tables --workers 2

mutants: .venv/.dev
	$(BIN)/python tools/mutants.py --part $(PART) --seed $(SEED)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
