# Needs python3.11 (with venv), make and git. Everything else goes into .venv, pinned by hash.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
# Bytecode is written when a module is first imported; without it every start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --quiet

.PHONY: demo test lint format bench docs lock servers clean

demo: $(VENV)/.run  ## a sample fleet, from store to report
	@$(BIN)/gpucost demo

test: $(VENV)/.dev servers  ## everything but what is slow
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not bench" $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench servers  ## speed, beside the usual ways in the same run: docs/performance.md
	$(BIN)/python -m pytest -m bench tests/bench --page docs/performance.md $(PYTEST_ARGS)

docs: $(VENV)/.docs  ## the pages of docs/ as a site, in build/site; fails where a link or an anchor leads nowhere
	$(BIN)/mkdocs build --strict

servers:  ## the Prometheus that tests collect from
	@.ci/install-server prometheus

lock:  ## pin dependencies anew; needs uv
	$(COMPILE) --group build -o requirements/run.txt
	$(COMPILE) --extra all --group test --group lint -o requirements/dev.txt
	$(COMPILE) --extra all --group test --group lint --group bench -o requirements/bench.txt
	$(COMPILE:pyproject.toml=--group docs) -c requirements/dev.txt -o requirements/docs.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Not compiled: all of it now would take longer than the rest.
$(VENV)/.run: requirements/run.txt pyproject.toml
	@echo "1/3  an environment of its own: $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "2/3  $$(grep -c == requirements/run.txt) packages that gpucost needs"
	@$(PIP) install --no-compile --require-hashes -r requirements/run.txt
	@echo "3/3  gpucost itself"
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(PIP) install --no-compile --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev requirements/bench.txt
	$(PIP) install --no-compile --require-hashes -r requirements/bench.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.run requirements/docs.txt
	$(PIP) install --no-compile --require-hashes -r requirements/docs.txt
	@touch $@
