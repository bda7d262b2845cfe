# Two commands are all a newcomer needs: `make demo` and `make test`. Each makes `.venv` if it is
# missing and installs what it uses.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
# Two workers with one thread each: on two cores, torch's own threads would fight over them.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check format bench peers clean pictures browser

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## Phantom scans, two slices in three of them, to a report (under 4 minutes)
	$(BIN)/twoslice demo --out demo

test: $(VENV)/.all peers check browser ## Everything: checks, fast and slow tests, the peers' own tools
	$(PYTEST)

test-fast: $(VENV)/.all ## The fast tests alone
	$(PYTEST) -m "not slow and not peers"

check: $(VENV)/.all ## Lint, formatting, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	bash tests/annotator/check_page.sh .peers/typescript

browser: ## Chromium for the annotator's browser tests, where it may be installed
	@bash tests/annotator/get_chromium.sh

format: $(VENV)/.all ## Put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.all ## Every benchmark; the machine should have nothing else to do
	set -e; for file in $(filter-out bench/recipes.py bench/quality.py bench/parts.py bench/uncertainty.py bench/browsing.py bench/real_scans.py bench/small_scans.py bench/memory.py,$(wildcard bench/*.py)); do \
		echo "== $$file"; $(BIN)/python $$file; done  # those that need a run or hours are started by hand

peers: .peers/.nnunet ## nnU-Net in an environment of its own, for the tests that run its tools

.peers/.nnunet: constraints.txt tests/peers/make_environment.sh
	PYTHON=$(PYTHON) bash tests/peers/make_environment.sh .peers/nnunet
	@touch $@

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "twoslice needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/.all: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) -e ".[all]"
	@touch $@ $(VENV)/.core

clean: ## Remove the environments and the demo
	rm -rf $(VENV) .peers demo

pictures: demo $(VENV)/.all ## The pictures of README and method guide (needs Chromium)
	bash docs/images/make.sh demo/report.html
	$(BIN)/python docs/images/method.py
	$(BIN)/python docs/images/annotator.py
