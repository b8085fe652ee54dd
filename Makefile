# Two commands matter on a fresh machine: `make demo` and `make test`. Everything they need, they install.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MARKS  ?= not slow or chosen
# One more than there are cores: while a test waits for a process, another runs.
WORKERS ?= $(shell expr $$(nproc) + 1)
BENCHMARKS ?= runner inference runs tabular ppo dqn fastlane web tui rllib godot sb3

# The tests start hundreds of Python processes: none of them should compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo setup system check format lint types imports fast test test-all test-generic bench clean

demo: setup
	$(BIN)/mosaic demo

setup: $(STAMP) system
	@$(BIN)/python -m mosaic.warm

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

# Debian packages, where we may install them; without them the tests that need them say so.
system:
	@sh scripts/system-packages.sh

check: format lint types imports fast

format:
	$(BIN)/ruff format --check src tests benchmarks examples scripts

lint:
	$(BIN)/ruff check src tests benchmarks examples scripts

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

fast:
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test: setup format lint types imports
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(MARKS)"

test-all: setup format lint types imports
	$(BIN)/python -m pytest -n $(WORKERS)
	$(MAKE) test-generic
	$(MAKE) bench

# The learning tests as on a CPU without AVX2 and AVX-512: they must not depend on its rounding.
test-generic:
	$(BIN)/python scripts/generic-cpu.py $(BIN)/python -m pytest -n $(WORKERS) tests/learners tests/models

# Each benchmark runs even if one before it has failed; the end names those that have.
bench: setup
	@failed=; for name in $(BENCHMARKS); do \
	    echo "== benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
