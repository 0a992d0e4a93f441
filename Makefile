# Every target runs from a fresh clone: `setup` makes .venv first, and only when a lock or pyproject.toml changed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Tests start a thousand processes, and each would compile the whole package for itself.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/.stamp
DEMO_STAMP := .venv/.stamp-demo
PAGES := src/stepwell/http/dashboard_files/sources.sha256
PAGES_FROM := $(shell find dashboard -name node_modules -prune -o -name __pycache__ -prune -o -type f -print)
CODE := src tests tools dashboard $(wildcard sim bench examples)
SEEDS ?= 200
FIRST_SEED ?= 1
OPS ?= 20000
REQUESTS ?= 2000
MUTATIONS ?= 1000
MINUTES ?= 60
FAULTS ?= 250
TASKS ?= 10
TIMES ?= 50
CUTS ?= 2500
EXAMPLES ?= 2000
HISTORIES ?= 2000
FORESTS ?= 200
SECONDS_EACH ?= 60
# One more than there are cores: many tests wait for real processes.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
PEERS ?=
UPGRADE ?=
WORKLOADS ?=
ROUNDS ?= 3
ARGS ?=

.PHONY: help setup demo test check mypy basedpyright pages browser screenshots check-campaign fmt docs sim schedules differential bench bench-peers performance scale-sim storm fuzz linear retention model power network restarts soak api-campaign scorecard sbom audit audit-offline lock wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: $(STAMP) $(PAGES) ## make .venv from the locked requirements, install the package into it, and build the dashboard

$(STAMP): requirements-dev.txt requirements.txt pyproject.toml tools/setup.sh
	@tools/setup.sh .venv requirements-dev.txt
	@touch $(DEMO_STAMP) $@

# Nothing is built unless a source of the pages has changed.
$(PAGES): $(STAMP) $(PAGES_FROM)
	@$(BIN)/python dashboard/build.py --may-install-node
	@touch $@

# What the package itself needs. `setup` completes the same .venv later.
$(DEMO_STAMP): requirements.txt pyproject.toml tools/setup.sh
	@tools/setup.sh .venv requirements.txt
	@touch $@

demo: $(DEMO_STAMP) ## run the demonstration: an order saga that survives kill -9
	$(BIN)/stepwell demo $(ARGS)

test: check ## check, then every test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

check: setup ## lint, format, types, layers, generated pages, and the audit that needs no network
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync mypy basedpyright pages
	$(BIN)/lint-imports
	$(BIN)/python -m tools.docs --check
	$(BIN)/python -m tools.dashboard --check
	$(BIN)/python -m tools.sync_context --check
	$(BIN)/python -m tools.sync_side --check
	$(BIN)/python -m tools.scorecard --check
	$(BIN)/python -m tools.audit --offline

mypy: setup
	$(BIN)/mypy $(CODE)

basedpyright: setup
	$(BIN)/basedpyright

pages: setup ## types and tests of the pages of the dashboard
	$(BIN)/python dashboard/build.py --check

browser: setup ## every page of the dashboard in Chromium: accessibility in all modes, below a prefix behind a proxy
	BROWSER_MODES=all $(BIN)/python -m pytest tests/browser $(ARGS)

screenshots: setup ## pictures of every page of the dashboard, in light and dark, on a desk and on a phone, into screenshots/ and docs/images/
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

fmt: setup ## format the code and fix what the linter can
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

docs: setup ## write what is generated: pages of docs/, schema.sql of each store, the synchronous side, the types of the API
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.dashboard
	$(BIN)/python -m tools.sync_context
	$(BIN)/python -m tools.sync_side

sim: setup ## simulate SEEDS seeds from FIRST_SEED on
	$(BIN)/python -m sim --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(ARGS)

schedules: setup ## simulate SEEDS seeds of schedules: workers that die, clocks that jump, people who interfere
	$(BIN)/python -m sim.schedules --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(ARGS)

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

fuzz: setup ## give generated bytes to everything that reads bytes, guided by coverage, SECONDS_EACH for each decoder
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS_EACH) $(ARGS)

linear: setup ## HISTORIES of many clients of one run, on each store: each must fit into one order of events
	$(BIN)/python -m tests.linear.campaign --histories $(HISTORIES) $(ARGS)

retention: setup ## prune FORESTS of random runs on SQLite, then on PostgreSQL: only what may go goes, and nothing of it is left
	$(BIN)/python -m tests.retention.campaign --forests $(FORESTS) $(ARGS)

model: setup ## tell EXAMPLES random stories to the public API and to a model of it, and compare
	$(BIN)/python -m tests.model --examples $(EXAMPLES) $(ARGS)

network: setup ## let FAULTS faults happen to the links between workers and PostgreSQL, and check every promise
	$(BIN)/python -m tests.system.network --faults $(FAULTS) $(ARGS)

restarts: setup ## start and stop engines, workers and servers, TASKS at once and TIMES each, and look at what is left
	$(BIN)/python -m tests.host.restarts --tasks $(TASKS) --times $(TIMES) $(ARGS)

power: setup ## cut the power under SQLite CUTS times, at random moments, and look at what is left
	$(BIN)/python -m tests.system.power --cuts $(CUTS) $(ARGS)

soak: setup ## a steady load with kills for MINUTES on each store: RSS, descriptors, tasks and WAL over time, and their slopes
	$(BIN)/python -m tests.system.soak --minutes $(MINUTES) $(ARGS)

api-campaign: setup ## send REQUESTS generated requests to each operation of a real server, and print the figures
	$(BIN)/python -m tests.http.campaign --requests $(REQUESTS) $(ARGS)

scorecard: setup ## write SCORECARD.md from the results that campaigns with ARGS=--record have left in scorecard/
	$(BIN)/python -m tools.scorecard

sbom: setup ## write a CycloneDX list of what is needed at run time to dist/sbom.json
	$(BIN)/python -m tools.sbom dist/sbom.json

audit: setup ## audit the lock, licences, our source, and known flaws of the requirements (needs the advisory database)
	$(BIN)/python -m tools.audit

audit-offline: setup ## the part of the audit that needs no network
	$(BIN)/python -m tools.audit --offline

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet
lock: ## compile requirements*.txt and package-lock.json again (needs uv and Node); versions stay as they are, unless UPGRADE=1
	$(COMPILE) $(if $(filter-out 0,$(UPGRADE)),--upgrade) --output-file requirements-dev.txt pyproject.toml requirements-dev.in
	$(COMPILE) --upgrade --constraint requirements-dev.txt --output-file requirements.txt pyproject.toml requirements.in
	$(COMPILE) $(if $(filter-out 0,$(UPGRADE)),--upgrade) --output-file requirements-node.txt requirements-node.in
	python3 dashboard/build.py --lock

clean: ## remove everything that was made here
	rm -rf .venv dist build screenshots dashboard/node_modules src/stepwell/http/dashboard_files .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
