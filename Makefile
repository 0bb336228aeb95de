# Everything a newcomer or the CI needs. `make` alone lists the targets.
# PYTHON=python3.12 picks the interpreter; VENV=path puts the environment elsewhere.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo demo-serve test lint type layers fix bench build clean

VENV ?= .venv
BIN := $(VENV)/bin
# The first interpreter on the PATH that is new enough; python3 if none is, so that the check below names it.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit; }; done; echo python3)
# Without compiling: half a minute less, and Python compiles what it uses the first time.
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-input --no-compile
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## protect, stream, detect, verify and decode the sample; results in demo-out/
	@$(BIN)/veilcam demo --out demo-out --force $(ARGS)

demo-serve: $(VENV)/.base ## the same, then keep the live page up until Ctrl-C
	@$(BIN)/veilcam demo --out demo-out --force --serve $(ARGS)

test: $(VENV)/.dev ## run the tests (ARGS="-k name" to choose)
	@$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev ## check style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

type: $(VENV)/.dev ## check types (mypy, strict)
	@$(BIN)/mypy

layers: $(VENV)/.dev ## check that imports point down only
	@$(BIN)/lint-imports

fix: $(VENV)/.dev ## apply what `lint` can repair by itself
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev ## measure the pipeline on this machine
	@$(BIN)/python -m bench.pipeline $(ARGS)

build: $(VENV)/.dev ## build the source archive and the wheel into dist/
	@$(BIN)/python -m build --outdir dist .

clean: ## remove the environment, caches and results
	rm -rf $(VENV) dist build demo-out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The environment: made once, installed again only when pyproject.toml changes. `.dev` includes `.base`.
$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { echo "make: $(PYTHON) not found; install Python 3.11 or newer, or set PYTHON=" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: veilcam needs Python 3.11 or newer, $(PYTHON) is $$("$(PYTHON)" -V 2>&1); set PYTHON=python3.x" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "make: $(PYTHON) has no venv module; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv "$(VENV)"

$(VENV)/.base: pyproject.toml | $(BIN)/python
	@echo "installing veilcam into $(VENV) (about a minute)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing veilcam and the development tools into $(VENV) (about a minute)"
	@$(PIP) --editable '.[dev]'
	@touch $(VENV)/.base $@
