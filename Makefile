# Bare `make` lists every command. Only python3 and make are needed: everything else is installed
# into .venv, in the versions that were tested (constraints.txt).
.DEFAULT_GOAL := help
.ONESHELL:
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
# Processes that run tests side by side.
JOBS ?= 2
# Paths stay relative, so a checkout in a folder with spaces works.
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: help demo docs figures test test-all test-torch stress stress-long check format setup bench wheel clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*##/\t/' | while IFS=$$'\t' read -r name text; do
		printf '  make %-12s %s\n' "$$name" "$$text"
	done

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit("sghash needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(RUN)
	@echo "installing sghash into $(VENV) ..." >&2
	# Python compiles what it imports; compiling all of every package first takes twice as long.
	$(PIP) --no-compile -e '.[plots]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(RUN)
	@echo "installing sghash and what its tests need into $(VENV) ..." >&2
	$(PIP) -e '.[dev]'
	touch $(VENV)/.demo $@

demo: $(VENV)/.demo ## fit, encode and search on built-in data, and show the result
	@$(RUN) -m sghash demo

setup: $(VENV)/.dev ## build .venv with all that the tests need

test: $(VENV)/.dev ## the tests (under four minutes on two cores)
	$(RUN) -m pytest -q -n $(JOBS) --dist worksteal -m 'not slow and not torch'

test-all: $(VENV)/.dev ## the slow tests and those that install things (under thirty minutes)
	$(RUN) -m pytest -q -n $(JOBS) --dist worksteal -m 'slow'

stress: $(VENV)/.dev ## kills, interrupts and faults against a reference, for about five minutes
	$(RUN) tests/stress/run.py --events 100000 --seconds 280 --jobs 2

stress-long: $(VENV)/.dev ## ten thousand of them; every byte flipped, damaged files, a million kernel calls (under 45 minutes)
	$(RUN) tests/stress/run.py --events 10000 --jobs 2
	$(RUN) tests/stress/flips.py & flips=$$!
	$(RUN) tests/stress/fuzz_collections.py 20000
	wait $$flips
	$(RUN) tests/stress/fuzz_index.py 0 20000 & index=$$!
	$(RUN) tests/stress/fuzz_models.py 0 2000
	wait $$index
	MALLOC_ARENA_MAX=1 MALLOC_PERTURB_=165 $(RUN) tests/stress/kernels/hammer.py --calls 1000000 --threads 1 2 4 8 16 --all-widths

$(VENV)/.torch: $(VENV)/.dev
	@echo "installing PyTorch into $(VENV) ..." >&2
	$(PIP) -e '.[torch]'
	touch $@

test-torch: $(VENV)/.torch ## the tests of DeepSGH, which needs PyTorch to be fitted
	$(RUN) -m pytest -q -m 'torch'

check: $(VENV)/.dev ## format, lint, types, layers
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-cache

format: $(VENV)/.dev ## rewrite the code in the project's format
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

figures: $(VENV)/.dev ## the paper's claims again, to docs/results.html and .md (hours with real data; resumes, and draws the rows that are there)
	$(RUN) -m sghash reproduce all --out docs

docs: $(VENV)/.dev ## all pages and the API reference as a static site, in site/
	$(RUN) -m mkdocs build --quiet --strict
	@echo "open site/index.html"

bench: $(VENV)/.dev ## Hamming search beside FAISS, usearch, NumPy and the roofline
	$(RUN) benchmarks/hamming_scan.py

wheel: $(RUN) ## build the wheel, install it alone into a fresh environment, run the demo from there
	rm -rf dist build/wheel-check
	$(RUN) -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt dist/sghash-*.whl
	cd build/wheel-check && bin/python -m sghash demo

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
