# Every target works on a fresh clone: what is missing is made first.
# The first Python that is recent enough; `make PYTHON=...` names another.
SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c '$(SUITABLE)' 2>/dev/null && { echo $$each; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The part of it that a fleet on this machine takes.
RUNS := $(VENV)/.runs
# Several workers where each can have a network of its own, else one. Half of the time of these tests is waiting.
NETWORKS = $(shell unshare --net true 2>/dev/null && echo 4 || echo 0)

# The commit whose fleets must go on under the code of the working tree, unless BASE names another.
LAST_RELEASE := c10b0252

# Reading the modules of those folders, of which no test runs here, would take a third of the time for all.
WITHOUT_SERVERS := --ignore=tests/kubernetes --ignore=tests/scale --ignore=tests/engines --ignore=tests/browser
TWO_WORKERS := --numprocesses=2 --dist=loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup up down test coverage test-kubernetes scale engines containers browser cast crowd chaos check contract takeover format generate golden \
	docs gateway-module check-gateway-module fuzz sanitize soak bench wheel release audit clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything that developing and running takes

$(READY): EXTRAS := local,function,otel,google,aws,nebius,mutual-tls,dashboard,mcp,docs,dev
$(RUNS): EXTRAS := local,dashboard
$(READY) $(RUNS): pyproject.toml
	@$(or $(PYTHON),false) -c '$(SUITABLE)' || { \
		echo "Modelplane needs Python 3.11 or later$(if $(PYTHON),; $(PYTHON) is not,, and there is none on the PATH)." \
			"Install one, or say where one is: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) package/environment.py $@ $(EXTRAS)

up: $(or $(wildcard $(READY)),$(RUNS)) ## Start a fleet on this machine
	@$(BIN)/modelplane up

down: $(or $(wildcard $(READY)),$(RUNS)) ## Stop it
	@$(BIN)/modelplane down

test: setup ## Run the tests that need neither Go nor a server
	@$(BIN)/python -m pytest -q -m "not kubernetes and not scale and not engines" $(WITHOUT_SERVERS) $(TWO_WORKERS) --durations=25

coverage: setup ## Run the same, and print how much of each package they cover
	@mkdir -p build
	@$(BIN)/python -m pytest -q -m "not kubernetes and not scale and not engines" $(WITHOUT_SERVERS) $(TWO_WORKERS) --cov --cov-report=json:build/coverage.json
	@$(BIN)/python tests/coverage_table.py build/coverage.json

test-kubernetes: setup ## Run the tests against a real control plane, proxy and engine
	@MODELPLANE_TAKEOVER_BASE=$(shell git cat-file -e $(LAST_RELEASE) 2>/dev/null && echo $(LAST_RELEASE)) \
		$(BIN)/python -m pytest -q -m kubernetes --numprocesses=$(NETWORKS) --dist=loadfile --no-loadscope-reorder --durations=25 \
		tests/kubernetes tests/oracle tests/security tests/takeover

scale: setup ## Run the tests of many replicas at once, which take minutes
	@$(BIN)/python -m pytest -q -m scale --durations=25

engines: setup ## Install real vLLM and SGLang (some 6 GB) and run the tests against them
	@$(BIN)/python tests/engines/install.py
	@$(BIN)/python -m pytest -q -m engines tests/engines --durations=10

containers: setup ## Run pods and packages in real containers; needs Podman and runc, and a kernel that allows them
	@PYTHONPATH=tests $(BIN)/python -m support.podman

browser: setup ## Look at the dashboard and the site in Chromium; PICTURES=1 also writes the pictures of the docs
	@MODELPLANE_PICTURES=$(PICTURES) $(BIN)/python -m pytest -q -m browser tests/browser --durations=5

cast: setup ## Record the tour in a terminal, for the pages: docs/tour.cast
	@MODELPLANE_CAST=1 $(BIN)/python -m pytest -q -m kubernetes tests/kubernetes/test_cast.py

crowd: setup ## Let 200 requests wait for a replica that they start, in a real fleet
	@MODELPLANE_CROWD=200 $(BIN)/python -m pytest -q -s -m kubernetes tests/kubernetes/test_first_answer.py -k crowd

chaos: setup ## Kill processes at random during the tour, for thirty rounds
	@mkdir -p build
	@MODELPLANE_CHAOS_ROUNDS=30 MODELPLANE_CHAOS_RECORD=build/chaos.jsonl \
		$(BIN)/python -m pytest -q -m kubernetes tests/kubernetes/test_chaos.py

check: setup ## Lint, types, layers, drift of generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python package/generate.py --check
	@$(BIN)/python package/gateway_module.py --check

contract: setup ## Record what a move must not change; BASE=COMMIT compares with that commit
	@PYTHONPATH=tests $(BIN)/python -m contract.record $(if $(BASE),--base $(BASE))

takeover: setup ## Begin fleets with the code of BASE, go on with this one and back: nothing restarts
	@MODELPLANE_TAKEOVER_BASE=$(or $(BASE),$(LAST_RELEASE)) $(BIN)/python -m pytest -q tests/takeover

format: setup ## Format the code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

generate: setup ## Write the CRDs and reference pages anew from the types
	@$(BIN)/python package/generate.py

golden: setup ## Write the expected files of the golden tests anew; review the difference
	@MODELPLANE_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden/test_composition.py
	@MODELPLANE_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden tests/examples tests/unit/offline --ignore=tests/golden/test_composition.py

docs: setup ## Build the site of the documentation into build/site; needs npm, for diagrams
	@$(BIN)/python package/site/build.py
	@PYTHONPATH=tests $(BIN)/python -m support.shown_blocks

gateway-module: setup ## Build the library that the gateway's Envoy loads, with Rust's cargo
	@$(BIN)/python package/gateway_module.py

check-gateway-module: ## Format, lint and test the library's sources
	@cd gateway-module && cargo fmt --check && cargo clippy --quiet --all-targets -- -D warnings && cargo test --quiet

fuzz: ## Run its readers of hostile bytes against generated input, a minute each
	@cd gateway-module && MODELPLANE_FUZZ_SECONDS=60 cargo test --quiet --profile fuzz fuzz:: -- --show-output

sanitize: ## Run its tests under AddressSanitizer, with Rust's nightly toolchain
	@cd gateway-module && RUSTFLAGS=-Zsanitizer=address cargo +nightly test --quiet \
		--target $$(rustc -vV | sed -n 's/^host: //p') --target-dir target/sanitized

soak: setup ## Send it load under every kind of change for SECONDS (an hour), and ten thousand split uploads
	@mkdir -p build
	@rm -f build/soak.json
	@MODELPLANE_UPLOADS=10000 $(BIN)/python -m pytest -q tests/kubernetes/test_gateway_module.py -k uploads
	@MODELPLANE_SOAK_SECONDS=$(or $(SECONDS),3600) MODELPLANE_SOAK_RECORD=build/soak.json \
		$(BIN)/python -m pytest -q tests/kubernetes/test_soak.py; status=$$?; cat build/soak.json; exit $$status

bench: setup ## Measure from nothing to the first token
	@$(BIN)/python benchmarks/first_answer.py --json

wheel: setup ## Build the wheel that carries the control plane's binary, for this kind of machine
	@$(BIN)/python package/wheel.py

release: setup ## Make a release in dist: wheels for each kind of machine, packages, bill of materials, checksums
	@$(BIN)/python package/release.py

audit: setup ## Check dependencies for vulnerabilities and licenses, and write a bill of materials to build/audit
	@$(BIN)/python package/audit.py

clean: ## Remove what was built here
	rm -rf $(VENV) dist build gateway-module/target .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
