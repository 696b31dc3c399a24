# Every target works on a fresh clone: what is missing is made first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup up down test test-kubernetes check format generate golden bench clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything that developing and running takes

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Modelplane needs Python 3.11 or later; run: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Modelplane and its dependencies into $(VENV) (about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[local,dev]'
	@touch $@

up: setup ## Start a fleet on this machine
	@$(BIN)/modelplane up

down: setup ## Stop it
	@$(BIN)/modelplane down

test: setup ## Run the tests that need neither Go nor a server
	@$(BIN)/python -m pytest -q -m "not kubernetes"

test-kubernetes: setup ## Run the tests against a real control plane, proxy and engine
	@$(BIN)/python -m pytest -q -m kubernetes

check: setup ## Lint, types, layers, drift of generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python package/generate.py --check

format: setup ## Format the code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

generate: setup ## Write the CRDs and reference pages anew from the types
	@$(BIN)/python package/generate.py

golden: setup ## Write the expected files of the golden tests anew; review the difference
	@MODELPLANE_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden

bench: setup ## Measure from nothing to the first token
	@$(BIN)/python benchmarks/first_answer.py --json

clean: ## Remove what was built here
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
