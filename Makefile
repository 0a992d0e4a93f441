# Every target runs from a fresh clone: `setup` makes .venv first, and only when the lock or pyproject.toml changed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Tests start a thousand processes, and each would compile the whole package for itself.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/.stamp
CODE := src tests tools $(wildcard sim bench examples)
SEEDS ?= 200
FIRST_SEED ?= 1
OPS ?= 20000
REQUESTS ?= 2000
MUTATIONS ?= 1000
MINUTES ?= 60
CUTS ?= 2500
# One more than there are cores: many tests wait for real processes.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
PEERS ?=
UPGRADE ?=
WORKLOADS ?=
ROUNDS ?= 3
ARGS ?=

.PHONY: help setup demo test check mypy basedpyright check-campaign fmt docs sim differential bench bench-peers performance scale-sim storm power soak api-campaign scorecard sbom audit audit-offline lock wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(STAMP) ## make .venv from the locked requirements and install the package into it

$(STAMP): requirements-dev.txt pyproject.toml tools/setup.sh
	@tools/setup.sh .venv
	@touch $@

demo: setup ## run the demonstration: an order saga that survives kill -9
	$(BIN)/stepwell demo $(ARGS)

test: check ## check, then every test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

check: setup ## lint, format, types, layers, generated pages, and the audit that needs no network
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync mypy basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m tools.docs --check
	$(BIN)/python -m tools.sync_context --check
	$(BIN)/python -m tools.sync_side --check
	$(BIN)/python -m tools.audit --offline

mypy: setup
	$(BIN)/mypy $(CODE)

basedpyright: setup
	$(BIN)/basedpyright

fmt: setup ## format the code and mend what the linter can
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

docs: setup ## write what is generated: pages of docs/, schema.sql of each store, and the synchronous side of the code
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.sync_context
	$(BIN)/python -m tools.sync_side

sim: setup ## simulate SEEDS seeds from FIRST_SEED on
	$(BIN)/python -m sim --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(ARGS)

differential: setup ## run OPS operations through all stores, and compare, from FIRST_SEED on
	$(BIN)/python -m tests.differential --ops $(OPS) --first-seed $(FIRST_SEED) $(ARGS)

check-campaign: setup ## change code under MUTATIONS runs in flight; hold what the check says against what a worker does
	$(BIN)/python -m tests.check.campaign --mutations $(MUTATIONS) --first-seed $(FIRST_SEED) $(ARGS)

bench: setup ## measure both stores, and print the figures beside the raw limit
	$(BIN)/python -m bench $(ARGS)

bench-peers: setup ## the same work through stepwell and its peers; PEERS=dbos,restate WORKLOADS=W1,W2 ROUNDS=3 narrow it
	$(BIN)/python -m bench.peers --peers "$(PEERS)" --workloads "$(WORKLOADS)" --rounds $(ROUNDS) $(ARGS)

performance: setup ## bench-peers in full, and its tables and picture into docs/performance.md: needs a quiet machine
	$(BIN)/python -m bench.peers --rounds $(ROUNDS) --page docs/performance.md $(ARGS)

scale-sim: setup ## simulate up to 1,000 workers at one PostgreSQL, from service times that are measured first
	$(BIN)/python -m bench.scale $(ARGS)

storm: setup ## kill -9 real workers, and the servers of their database, many times: SQLite, then PostgreSQL
	$(BIN)/python -m tests.system.storm $(ARGS)

power: setup ## cut the power under SQLite CUTS times, at random moments, and look at what is left
	$(BIN)/python -m tests.system.power --cuts $(CUTS) $(ARGS)

soak: setup ## a steady load with kills for MINUTES on each store: RSS, descriptors, tasks and WAL over time, and their slopes
	$(BIN)/python -m tests.system.soak --minutes $(MINUTES) $(ARGS)

api-campaign: setup ## send REQUESTS generated requests to each operation of a real server, and print the figures
	$(BIN)/python -m tests.http.campaign --requests $(REQUESTS) $(ARGS)

scorecard: setup ## write SCORECARD.md from the results that campaigns with --keep have left in scorecard/
	$(BIN)/python -m tools.scorecard

sbom: setup ## write a CycloneDX list of what is needed at run time to dist/sbom.json
	$(BIN)/python -m tools.sbom dist/sbom.json

audit: setup ## audit the lock, licences, our source, and known flaws of the requirements (needs the advisory database)
	$(BIN)/python -m tools.audit

audit-offline: setup ## the part of the audit that needs no network
	$(BIN)/python -m tools.audit --offline

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

lock: ## compile requirements-dev.txt again (needs uv); versions stay as they are, unless UPGRADE=1
	uv pip compile --universal --python-version 3.11 $(if $(filter-out 0,$(UPGRADE)),--upgrade) --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--quiet --output-file requirements-dev.txt pyproject.toml requirements-dev.in

clean: ## remove everything that was made here
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
