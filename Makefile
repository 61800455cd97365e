# Needs python3.11 (with venv), make, bash and git. Everything else goes into .venv, pinned by hash.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
# Bytecode is written when a module is first imported; without it every start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# DuckDB plans statements in many small pieces of memory: glibc keeps more of them for the next.
test: export GLIBC_TUNABLES := glibc.malloc.tcache_count=30000:glibc.malloc.tcache_max=65536
COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --quiet

.PHONY: demo test nightly mutants lint audit dist faults format bench docs pictures lock servers clean

demo: $(VENV)/.run  ## a sample fleet, from store to report; left in gpucost-demo to look around in
	@$(BIN)/gpucost demo --keep gpucost-demo

test: $(VENV)/.dev servers  ## everything but what is slow
	$(BIN)/python -m pytest -n auto --dist loadfile -p tests.touched -m "not slow and not bench" $(PYTEST_ARGS)

nightly: $(VENV)/.dev servers  ## all that is slow, disturbances too: before a release; an hour or two
	RANDOM_EXAMPLES=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not bench" $(PYTEST_ARGS)

mutants: $(VENV)/.dev  ## rules broken one by one, which the fast tests have to notice
	$(BIN)/python -m tests.mutants

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.ratchets

audit: $(VENV)/.release  ## the code by bandit, and known holes in what it needs, where that database answers
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive gpucost
	@.ci/audit

dist: $(VENV)/.release  ## the wheel, the same bytes each time, and what it is made of (CycloneDX): in dist
	@.ci/dist dist

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

faults: $(VENV)/.dev servers  ## what docs/security.md counts: commands that are killed, disks that fail, files that are changed; hours
	$(BIN)/python -m pytest -n auto tests/faults --runs 1000 $(PYTEST_ARGS)

bench: $(VENV)/.bench servers  ## speed, beside the usual ways in the same run: docs/performance.md; a quarter of an hour
	@# a folder of its own, because other runs of pytest delete older ones
	work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && TMPDIR=$$work $(BIN)/python -m pytest -m bench tests/bench \
		--page docs/performance.md --durations=30 -o tmp_path_retention_policy=none $(PYTEST_ARGS)

docs: $(VENV)/.docs  ## the pages of docs/ as a site, in build/site; fails where a link or an anchor leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: $(VENV)/.dev  ## that of the README, made anew; needs Chromium
	$(BIN)/python -m tests.pictures docs/img

servers:  ## the Prometheus that tests collect from
	@.ci/install-server prometheus

lock:  ## pin dependencies anew; needs uv
	$(COMPILE) --group build -o requirements/run.txt
	$(COMPILE) --extra all --group test --group lint -o requirements/dev.txt
	$(COMPILE) --extra all --group build -c requirements/dev.txt -o requirements/all.txt
	$(COMPILE) --extra all --group test --group lint --group bench -o requirements/bench.txt
	$(COMPILE:pyproject.toml=--group docs) -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE:pyproject.toml=--group release) -c requirements/dev.txt -o requirements/release.txt

clean:
	rm -rf $(VENV) gpucost-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Not compiled: all of it now would take longer than the rest. By uv where it is there, else by the pip that is there: run.txt brings
# one, too, and unpacking another first takes seconds.
$(VENV)/.run: requirements/run.txt pyproject.toml
	@echo "1/3  an environment of its own: $(VENV)"
	@$(PYTHON) -m venv --without-pip $(VENV)
	@count=$$(sed -n '/win32/d; s/==.*//p' requirements/run.txt | sort -u | wc -l); \
	echo "2/3  $$((count)) packages that gpucost needs"; \
	if command -v uv >/dev/null && uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/run.txt; then exit; fi; \
	pip="$(PYTHON) -m pip --python $(BIN)/python"; \
	$$pip --version >/dev/null 2>&1 || { $(PYTHON) -m venv $(VENV) && pip="$(BIN)/python -m pip"; }; \
	$$pip --disable-pip-version-check install --no-compile --require-hashes -r requirements/run.txt | $(SHOW_PACKAGES)
	@echo "3/3  gpucost itself"
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# What pip is at, on one line of a terminal; its errors go by.
SHOW_PACKAGES = while read -r word name _; do [ -t 1 ] || continue; case $$word in \
	Collecting) printf '\r     %d  %-40.40s' $$((++at)) "$$name";; \
	Installing) printf '\r     unpacking them%-40s' "";; \
	Successfully) printf '\r%-60s\r' "";; \
	esac; done

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	$(PIP) install --no-compile --require-hashes -r requirements/bench.txt
	@touch $@

$(VENV)/.release: $(VENV)/.run requirements/release.txt
	$(PIP) install --no-compile --require-hashes -r requirements/release.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.run requirements/docs.txt
	$(PIP) install --no-compile --require-hashes -r requirements/docs.txt
	@touch $@
