# Every target makes its own environment under .venv/ first; a repeat installs nothing until pyproject.toml changes.
# `make PYTHON=/path/to/python test` chooses the interpreter, SECOND_PYTHON the other one.

.DEFAULT_GOAL := help
.PHONY: help env second-env lint typecheck check test test-all test-default test-second test-vscode test-sdist first-hour minimal distributions oracle ledger demo docs editors vscode clean

export PYTHON SECOND_PYTHON
BIN := .venv/default/bin
SECOND_BIN := .venv/second/bin
# Twice what two cores have: many tests wait for processes.
WORKERS ?= 4
# Of one test the other release of JAX gets so many cases: what differs between releases shows in few.
SECOND_CASES ?= 12
TESTS ?= tests
# Folders of tests: each has a target, as in `make test-lint`.
AREAS := annotating converting costing engine evaluation global_view lang laws lint logical models mypy_plugin ops proving \
    pytest_plugin runtime semantics sharding
.PHONY: $(addprefix test-,$(AREAS))
CASES ?= 5000
PROGRAMS ?= 600
# Hundreds of tests start processes, and compiling would take most of the time that these take to start.
COMPILED := -m compileall -q shardtypes shardlint pytest_shardtypes

help:
	@echo 'make demo     run the linter, the mypy plugin and pytest --shardtypes on the example models'
	@echo 'make check    for every day: lint, types, and the tests of what changed since the main branch'
	@echo 'make test     what .ci/run runs: lint, types, some cases of each test, on a second Python too if there is one'
	@echo 'make test-all all tests, those that take long too: what the workflow runs'
	@echo 'make test-lint  the tests of one area; the others are: $(filter-out lint,$(AREAS))'
	@echo 'make lint     ruff and strict mypy over the sources'
	@echo 'make test-sdist  the tests, from an unpacked source distribution in an empty folder'
	@echo 'make first-hour  what a newcomer does in the first hour, from the wheel in an empty environment'
	@echo 'make minimal  tests on the oldest releases of the dependencies that are admitted'
	@echo 'make distributions  what is uploaded, in dist/, checked; with TAG=v0.1.0 as that release'
	@echo 'make oracle   the op models against JAX itself, over many more random programs'
	@echo 'make ledger   random annotated programs: each wrong value an alarm or a count, each right one silent'
	@echo 'make docs     the documentation as a site, in site/, with all its links checked'
	@echo 'make vscode   build and test the extension for Visual Studio Code (needs Node 20.12 or newer)'
	@echo 'make editors  the recipes for other editors, in those that are there: nvim, hx, emacs, jupyter'
	@echo 'make clean    remove the environments and caches'

env:
	@python=$$(sh scripts/find_python.sh) && sh scripts/make_env.sh "$$python" .venv/default dev docs

second-env: env
	@python=$$(sh scripts/find_python.sh second $(BIN)/python) && \
	if [ -n "$$python" ]; then sh scripts/make_env.sh "$$python" .venv/second dev; else rm -rf .venv/second; fi

lint: env
	@echo '== ruff =='
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory typecheck

typecheck: env
	@echo '== mypy =='
	@$(BIN)/mypy

check: lint
	@tests=$$($(BIN)/python scripts/choose_tests.py) && echo "== tests: $$(echo $$tests | tr '\n' ' ')==" && \
	$(BIN)/python -m pytest -q -n $(WORKERS) $$tests

# Checking types and installing for the second Python take a processor each, about as long.
test-all: env
	@$(MAKE) --no-print-directory -j2 lint second-env
	@$(MAKE) --no-print-directory test-default
	@$(MAKE) --no-print-directory test-second
	@$(MAKE) --no-print-directory test-vscode

# What .ci/run runs: of tests with many cases some, and none of the tests that take long.
test: export FEW := --cases 12
test: export SECOND_CASES := 4
test: test-all

$(addprefix test-,$(AREAS)): test-%: env
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(FEW) tests/$*

test-default: env
	@$(BIN)/python $(COMPILED)
	@echo "== tests, $$($(BIN)/python --version) =="
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=15 --durations-min=3 \
	    $(if $(FEW),-m 'not long') $(FEW) $(TESTS)

test-second: second-env
	@if [ -x $(SECOND_BIN)/python ]; then \
	    $(SECOND_BIN)/python $(COMPILED); \
	    echo "== tests, $$($(SECOND_BIN)/python --version) =="; \
	    $(SECOND_BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=15 --durations-min=3 \
	        -m 'not once$(if $(FEW), and not long)' --cases $(SECOND_CASES) $(TESTS); \
	else \
	    echo '== no second Python (3.12 or 3.13) on the PATH or under pyenv: tests ran on one only =='; \
	fi

test-vscode: env
	@if [ -d editors/vscode/node_modules ]; then \
	    echo '== the extension for Visual Studio Code =='; \
	    cd editors/vscode && npm run --silent check && npm run --silent build && npm run --silent test; \
	else \
	    echo '== the extension for Visual Studio Code was not tested: that needs Node, see make vscode =='; \
	fi

test-sdist: env
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/python -m hatchling build -t sdist -d "$$folder" >/dev/null && \
	tar -xzf "$$folder"/*.tar.gz -C "$$folder" --strip-components 1 && cd "$$folder" && \
	"$(CURDIR)/$(BIN)/python" -m pytest -q -n $(WORKERS) --dist worksteal $(TESTS)

first-hour:
	@sh scripts/first_hour.sh

minimal:
	@sh scripts/minimal.sh

# TAG=v0.1.0 holds them, and what names the release, to that tag.
distributions:
	@python=$$(sh scripts/find_python.sh) && sh scripts/make_env.sh "$$python" .venv/release release
	@rm -rf dist && .venv/release/bin/python -m hatchling build -d dist
	@.venv/release/bin/python -m twine check --strict dist/*
	@.venv/release/bin/python scripts/check_release.py dist $(TAG)

oracle: env
	@ORACLE_CASES=$(CASES) $(BIN)/python -m pytest -q -n $(WORKERS) --hypothesis-profile=deep tests/ops tests/lang \
	    tests/engine/test_random_programs.py

ledger: second-env
	@for python in $(BIN)/python $(SECOND_BIN)/python; do \
	    [ ! -x $$python ] || $$python -m tests.runtime.ledger $(PROGRAMS) || exit 1; \
	done

demo: env
	@$(BIN)/python fixtures/demo/run.py

docs:
	@python=$$(sh scripts/find_python.sh) && sh scripts/make_env.sh "$$python" .venv/docs docs
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict && .venv/docs/bin/python scripts/check_site.py site && \
	echo '== the site is in site/: .venv/docs/bin/mkdocs serve shows it =='

editors: env
	@$(BIN)/python scripts/try_editors.py

vscode: env
	@command -v npm >/dev/null || { echo 'make vscode needs Node 20.12 or newer with npm: https://nodejs.org'; exit 1; }
	@cd editors/vscode && npm ci --no-audit --no-fund && npm run --silent all
	@echo '== built editors/vscode/dist/shardlint.vsix =='

clean:
	rm -rf editors/vscode/node_modules editors/vscode/build editors/vscode/dist
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis .shardlint_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
