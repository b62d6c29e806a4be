# Everything a contributor runs. Needs make and Python >= 3.11; the rest comes from pip into .venv.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
# The stamp names the folder: a virtual environment that was copied or moved still points to where it was made.
STAMP := .venv/.installed-$(shell pwd | cksum | cut -d ' ' -f 1)

# The pages (dashboard, demo) and the JavaScript client: what they are made from, and the last file that is made.
WEB_SOURCES := $(wildcard package.json tsconfig.json) $(shell find clients/js web -type f \
	-not -path '*/node_modules/*' -not -path '*/dist/*' -not -path '*/test/*')
NODE_MODULES := node_modules/.package-lock.json
# In a fresh clone, web/npm works without .venv where the machine has a Node of its own: then it does not wait for pip.
NODE := $(if $(wildcard .venv),$(STAMP),$(shell web/npm --version >/dev/null 2>&1 || echo $(STAMP)))
WEB := src/holdfast/cli/demo/site/index.html
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

# More than there are cores: many tests wait for a process or a clock.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 2)))
# Each worker begins with a part of its own, so that the tests of a file share its servers and its browser.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Further arguments for pytest: make test ARGS="-k resume -x"
ARGS ?=
# How many seeds the simulation tries, or the one seed to repeat: make sim SEED=42
SEEDS ?= 200
SEED ?=
# How long the fuzzer runs, over all targets; the soak takes 20 unless it is told
MINUTES ?= 5
# How many patches of a random state are compared with it: make fuzz-state SYNCS=10000000 takes about an hour
SYNCS ?= 1000000
# How many times the storm kills the server
KILLS ?= 1000
# Which benchmarks run, all if empty, and how often each system is measured: make bench ONLY=echo,tick ROUNDS=1
ONLY ?=
ROUNDS ?= 3
# A Godot 4 for `make godot`; without it one is fetched
GODOT ?=

# The tests start hundreds of processes: none should compile again what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup web browser demo quick test check check-compiled compiled collect fmt lint types docs sim fuzz fuzz-state audit godot storm storm-cluster deployed soak bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## install everything into .venv (again only when pyproject.toml or constraints.txt changed)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 with venv found. Install one (on Debian also python3-venv)," \
		"or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) does not run or is older than Python 3.11." >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling editables
	@# No build isolation: an isolated build would fetch its own hatchling, past the constraints.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--no-build-isolation --editable '.[dev]'
	@touch $@

web: $(WEB) ## build the JavaScript client, the dashboard and the demo's page

$(NODE_MODULES): package-lock.json | $(NODE)
	@# Not ci: it fails where a registry lacks a build of some package for another kind of machine.
	web/npm install --no-save --silent --no-progress
	@touch $@

$(WEB): $(NODE_MODULES) $(WEB_SOURCES)
	web/npm run build --workspaces --silent
	@# For pages without a bundler: `holdfast serve --web` has it at /holdfast.js.
	cp clients/js/dist/index.js src/holdfast/http/site/holdfast.js
	@touch $@

browser: ## install a Chromium for the tests of the pages, if there is none and we may
	@test -n "$(CHROMIUM)" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		apt-get update --quiet=2 && apt-get install --quiet=2 --no-install-recommends --yes chromium >/dev/null; } || \
		echo "No Chromium found: the tests of the pages are skipped. Install one (on Debian: apt install chromium)." >&2

demo: $(WEB) $(STAMP) ## play: a game, connections that break, and a server to kill (press c)
	$(BIN)/holdfast demo

# What a change breaks most often, and nothing that starts a browser or many processes.
QUICK := tests/core tests/search tests/logs tests/identity tests/testing $(wildcard tests/schemas tests/test_*.py) \
	tests/server/test_server.py tests/server/test_resume.py tests/server/test_room_turns.py tests/server/test_room_joining.py

quick: $(STAMP) ## after each save, in under a minute: format, lint, types, architecture, the core and a bit of the server
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy
	HYPOTHESIS_PROFILE=quick $(PYTEST) -q $(QUICK) $(ARGS)

test: $(WEB) $(STAMP) browser ## run the tests (ARGS="-k resume -x")
	@# Side by side: those of the JavaScript client wait more than they work.
	web/npm test --workspaces --silent & web=$$!; $(PYTEST) $(ARGS); python=$$?; \
		wait $$web && exit $$python

# The make of macOS is too old to keep the outputs apart.
SIDE_BY_SIDE := --jobs=3 $(if $(filter output-sync,$(.FEATURES)),--output-sync)

check: ## what CI runs: format, lint, types, tests
	@# Side by side: what waits for others, and what uses one core.
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) setup web browser
	@$(MAKE) --no-print-directory $(SIDE_BY_SIDE) lint types collect
	@$(MAKE) --no-print-directory test

check-compiled: $(WEB) $(STAMP) browser compiled ## the tests with compiled modules (ARGS="tests/core"); needs a C compiler
	PYTHONPATH=$(CURDIR)/build/compiled $(BIN)/holdfast --version | grep compiled
	PYTHONPATH=$(CURDIR)/build/compiled $(PYTEST) $(ARGS)

compiled: $(STAMP) ## the package with compiled modules in build/compiled, for benchmarks and check-compiled
	$(BIN)/python hatch_build.py build/compiled

collect: $(STAMP)
	@# What is compiled here, once, every worker would compile for itself.
	@found=$$($(BIN)/python -m pytest --collect-only --quiet) || { echo "$$found"; exit 1; }

lint: $(NODE_MODULES) $(STAMP) ## check format and lint
	web/npm run lint --silent
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

types: $(WEB) $(STAMP) ## check types
	@# Side by side: each of them uses one core.
	web/npm run types --workspaces --silent & web=$$!; $(BIN)/python -m mypy; mypy=$$?; wait $$web && exit $$mypy

fmt: $(NODE_MODULES) $(STAMP) ## format, and fix what can be fixed
	web/npm run fmt --silent
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(NODE_MODULES) $(STAMP) ## build the guides and the reference into build/docs; a broken link fails
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--no-build-isolation --editable '.[docs]'
	web/npm --prefix web/reference install --no-save --silent --no-progress
	web/npm --prefix web/reference run reference --silent -- --logLevel Warn
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	$(BIN)/python -m tests.docs.site build/docs
	@echo "Open build/docs/index.html"

sim: $(STAMP) ## run the long simulation (SEEDS=200, SEED=42 to repeat one, KIND=--cluster for worlds of three nodes)
	$(BIN)/python -m tests.simulation $(KIND) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))
	$(if $(SEED)$(KIND),,$(BIN)/python -m tests.simulation --cluster --seeds $$(($(SEEDS) / 4)))

fuzz: $(STAMP) ## feed the decoders whatever reaches new code (MINUTES=5)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

fuzz-state: $(STAMP) ## compare mirrors with a state that is changed at random (SYNCS=1000000, SEED=42 to repeat one)
	$(BIN)/python -m tests.state --syncs $(SYNCS) $(if $(SEED),--seed $(SEED))

audit: $(STAMP) ## ask the advisory databases about every package that is installed (needs the internet)
	$(BIN)/pip-audit --strict --requirement constraints.txt --disable-pip --no-deps

godot: $(STAMP) ## test ENet with Godot 4, which is fetched from Debian into .godot (530 MB), or GODOT=/path/to/godot
	$(if $(GODOT),,sh tests/godot.sh .godot)
	GODOT="$(or $(GODOT),$(CURDIR)/.godot/godot)" $(BIN)/python -m pytest -q tests/transports/enet/test_foreign.py -k godot

storm: $(STAMP) ## kill a server again and again; check that nothing is lost (KILLS=1000, SEED=42, STORE=nats)
	$(BIN)/python -m tests.storm --kills $(KILLS) $(if $(STORE),--store $(STORE)) $(if $(SEED),--seed $(SEED))

storm-cluster: $(STAMP) ## the same with three nodes and three NATS servers; as root links are cut, too (KILLS=100, OTHER=v0.2.0)
	$(BIN)/python -m tests.storm_cluster --kills $(if $(filter file,$(origin KILLS)),100,$(KILLS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(OTHER),--other $(OTHER))

deployed: $(STAMP) ## run deploy/compose.yaml without containers, as root, and play through a kill, a drain and a rolling deploy
	$(BIN)/python -m tests.deployed

soak: $(STAMP) ## let players come and go for long; check that nothing grows (MINUTES=20)
	$(BIN)/python -m tests.soak --minutes $(if $(filter file,$(origin MINUTES)),20,$(MINUTES))

bench: $(STAMP) ## measure beside other servers, in 20 minutes on a quiet machine (ONLY=echo, ONLY=details, ROUNDS=3)
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) --rounds $(ROUNDS)

clean: ## remove .venv, caches and builds
	rm -rf node_modules web/reference/node_modules docs/reference/typescript clients/js/dist src/holdfast/http/site src/holdfast/cli/demo/site
	rm -rf benchmarks/peers/node_modules benchmarks/peers/site-packages
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
