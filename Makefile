# `make demo` and `make test` set up all they need in .venv; nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test lint format tables clean

help:
	@echo "make demo    set up, then TRACE against the baselines on a small synthetic bench, offline"
	@echo "make test    set up, then run all tests"
	@echo "make lint    style, types, layering"
	@echo "make tables  the paper's tables on the synthetic bench (long)"

.venv/.user: pyproject.toml constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) bash tools/setup.sh '.[video,glance,figures,web]' $@

.venv/.dev: pyproject.toml constraints.txt tools/setup.sh
	PYTHON=$(PYTHON) bash tools/setup.sh '.[dev]' $@

demo: .venv/.user
	$(BIN)/trace-ves demo

test: .venv/.dev
	$(BIN)/pytest -n 2

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
