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
# A program from Debian's packages: installed where that is possible, else its tests are skipped and say so.
APT = command -v $(1) >/dev/null || [ -e "$(1)" ] || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing Debian's $(2) ..." >&2 && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(2) >/dev/null; } || echo "no $(2): what needs it is skipped" >&2

.PHONY: help browser demo docs figures test test-all test-torch test-adapters test-engines stress stress-long check format setup bench wheel release clean

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
	$(RUN) -m pytest -q -n $(JOBS) --dist worksteal -m 'not slow and not torch and not adapters and not engines'

test-all: $(VENV)/.dev ## the slow tests and those that install things (under thirty minutes)
	$(RUN) -m pytest -q -n $(JOBS) --dist worksteal -m 'slow'

$(VENV)/.browser: $(VENV)/.dev
	$(call APT,chromium,chromium)
	@echo "installing axe-core and schemathesis ..." >&2
	npm pack --silent --pack-destination $(VENV) axe-core@4.14.0 >/dev/null && tar -xzf $(VENV)/axe-core-4.14.0.tgz -C $(VENV) package/axe.min.js && mv $(VENV)/package/axe.min.js $(VENV)/axe.min.js || echo "no axe-core: the audit is skipped" >&2
	$(PIP) schemathesis
	touch $@

browser: $(VENV)/.browser ## bring Chromium, axe-core and schemathesis, so that test-all tries pages and service with them

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
	$(PIP) -e '.[torch,sentence-transformers]'
	touch $@

test-torch: $(VENV)/.torch ## the tests of what needs PyTorch: DeepSGH, sentence-transformers
	$(RUN) -m pytest -q -m 'torch'

$(VENV)/.engines: $(VENV)/.dev
	@command -v java >/dev/null || [ -n "$${JAVA_HOME:-}" ] || { echo "Spark needs a JDK: apt-get install openjdk-17-jre-headless, or set JAVA_HOME" >&2; exit 1; }
	@echo "installing Spark and Ray into $(VENV) ..." >&2
	$(PIP) -e '.[dask,ray,spark]'
	touch $@

test-engines: $(VENV)/.engines ## building and searching on Spark and Ray, which need a JDK and about a gigabyte
	$(RUN) -m pytest -q -m 'engines'

$(VENV)/.adapters: $(VENV)/.dev
	$(call APT,/usr/lib/postgresql/15/bin/postgres,postgresql-15)
	@echo "installing databases and frameworks into $(VENV) ..." >&2
	$(PIP) -e '.[adapters]'
	touch $@

test-adapters: $(VENV)/.adapters ## the tests of databases, frameworks and exports, on the real ones
	$(RUN) -m pytest -q -m 'adapters' -p pytest_asyncio.plugin -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function tests/adapters

check: $(VENV)/.dev ## format, lint, types, layers
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-cache

format: $(VENV)/.dev ## rewrite the code in the project's format
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

# Measured side by side, one thread each; claims of one line share rows, long lines come first. What is
# timed comes last, alone and on one core. Whatever fails is named at the end; the rest is measured and
# drawn all the same.
FIGURES := "recall_by_length recall_l2 reconstruction" streamed_recall untouched entropy_term inner_product sensitivity templates convergence online
FIGURES_TIMED := estimators modern_embeddings training_time
REPRODUCE := env OPENBLAS_NUM_THREADS=1 $(RUN) -m sghash reproduce --threads 1 --out docs
ONE_CORE := $(shell command -v taskset >/dev/null && echo taskset -c 0)

figures: $(VENV)/.dev ## the paper's claims again, to docs/results.html and .md (hours with real data, minutes where all rows are there; resumes)
	failed=$$(mktemp)
	trap 'rm -f "$$failed"' EXIT
	try() { local name=$$1; shift; "$$@" || echo "$$name" >>"$$failed"; }
	export -f try && export failed
	printf '%s\n' $(FIGURES) | xargs -P $(JOBS) -I{} bash -c 'for name in {}; do try $$name $(REPRODUCE) --rows-only $$name; done'
	for name in $(FIGURES_TIMED); do try $$name $(ONE_CORE) $(REPRODUCE) --rows-only $$name; done
	try "docs/results.md" $(ONE_CORE) $(REPRODUCE) all
	try "docs/images" $(RUN) docs/images/figures.py
	if [ -s "$$failed" ]; then echo "failed, see above: $$(paste -sd' ' "$$failed")" >&2; exit 1; fi

docs: $(VENV)/.dev ## all pages and the API reference as a static site, in site/
	$(RUN) -m mkdocs build --quiet --strict
	@echo "open site/index.html"

bench: $(VENV)/.dev ## Hamming search beside FAISS, usearch, NumPy and the roofline
	$(RUN) benchmarks/hamming_scan.py

wheel: $(RUN) ## build wheel and sdist, look into them, install the wheel into a fresh environment, run the demo there
	rm -rf dist build/wheel-check
	$(PIP) hatchling
	$(RUN) -m hatchling build -d dist 2>/dev/null
	$(RUN) tools/check_dist.py dist
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt dist/sghash-*.whl
	cd build/wheel-check && bin/python -m sghash demo

$(VENV)/.release: pyproject.toml constraints.txt | $(RUN)
	$(PIP) -e '.[release]'
	touch $@

release: wheel $(VENV)/.release ## the same, then what a registry checks, then the wheel in every Python from 3.11 to 3.13 found here
	$(RUN) -m twine check --strict dist/*
	$(RUN) tools/try_pythons.py dist

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
