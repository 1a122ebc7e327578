# `make demo` and `make test` need nothing but Python 3.11 and make: they set up .venv themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check proofs mutants reproduce format clean

demo: $(VENV)/.core                ## explain a sentence with the embedded model
	$(BIN)/python -m attn_closed_form

test: $(VENV)/.dev                 ## every test and every docstring example
	$(BIN)/python -m pytest -q -n 2 $(ARGS)

check: $(VENV)/.dev                ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

proofs: $(VENV)/.dev               ## run every statement of both papers
	$(BIN)/python -m proofs_check

mutants: $(VENV)/.dev              ## do the tests notice random changes to the mathematics?
	$(BIN)/python -m benchmarks.mutants --workers 2 $(ARGS)

format: $(VENV)/.dev               ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The papers' tables and figures in a small size, into benchmarks/results/quick. DATA is a folder with the files that
# the papers used: aclImdb_v1.tar.gz and Yelp-HAT's ham_part*.csv.
PAPER_1 := $(patsubst benchmarks/%.py,%,$(wildcard benchmarks/paper1_*.py))
PAPER_2 := linear_data recovery reviews other_model cost
reproduce: $(VENV)/.dev            ## make reproduce DATA=PATH
	@test -n "$(DATA)" || { echo "say where the data is: make reproduce DATA=PATH"; exit 2; }
	for name in $(PAPER_1) $(PAPER_2); do $(BIN)/python -m benchmarks.$$name --data $(DATA) --quick || exit 1; done
	$(BIN)/python -m benchmarks.results_page --results benchmarks/results/quick --out benchmarks/results/quick/RESULTS.md

# One stamp per set of packages: reinstalled only when pyproject.toml changes.
$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
