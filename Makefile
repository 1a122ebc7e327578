# `make demo` and `make test` need nothing but Python 3.11 and make: they set up .venv themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv installs the same packages as pip in a sixth of the time. Where there is no uv for the platform, or it does not reach
# the package index (it does not read the settings of pip), pip installs them.
UV     := $(BIN)/python -m uv pip install --quiet --python $(BIN)/python
INSTALL = $(PIP) uv && $(UV) -e '.[$(EXTRAS)]' || $(PIP) -e '.[$(EXTRAS)]'

# Compiled modules are kept, whatever the environment says: without them, every process that tests start takes seconds.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-all coverage attack check package workflows docs report outputs test-oldest proofs mutants mutants-sample mutants-proof bench-device reproduce reproduce-full format clean

demo: $(VENV)/.core                ## explain a sentence with the embedded model
	$(BIN)/python -m attn_closed_form

# HYPOTHESIS_PROFILE=ci draws 100 new examples of every property in each run, and nightly 1,000. The default, dev, uses
# the same 30 examples (tests/conftest.py).
#
# A file is run by one worker: its models are trained, its JAX programs compiled and its packages imported once.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
test: $(VENV)/.dev                 ## the tests that are not slow and need no torch, and every docstring example
	$(BIN)/python -m pytest -q $(WORKERS) -m "not slow" $(ARGS)

# The page and runs are soaked for a minute in all (an hour each in the nightly job).
test-all: export SOAK_SECONDS ?= 20
test-all: $(VENV)/.all             ## every test: browser, cluster, kills, soak, all entries of the tables, torch
	$(BIN)/python -m pytest -q $(WORKERS) --durations=25 --durations-min=3 $(ARGS)

coverage: $(VENV)/.dev             ## the same as test, and which lines of the library were run
	$(MAKE) test ARGS="--cov --cov-report=term:skip-covered $(ARGS)"

attack: $(VENV)/.dev               ## 2,000 hostile files of every format against the readers; some twenty minutes
	$(BIN)/python -m tests.attacks.attack $(ARGS)

check: $(VENV)/.dev                ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

package: $(VENV)/.dev              ## the sdist and the wheel, which is used in an empty environment as a newcomer would
	$(BIN)/python .ci/install.py

workflows: $(VENV)/.workflows      ## errors and security holes in .github/workflows (actionlint, zizmor)
	$(BIN)/actionlint
	$(BIN)/zizmor --offline .github/workflows

docs: $(VENV)/.docs                ## the site, into site/; needs no network once .venv is there
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "wrote site/index.html"

report: $(VENV)/.dev               ## the technical report, docs/report/report.pdf; needs pdflatex (texlive-latex-recommended, lmodern)
	$(BIN)/python -m benchmarks.report_numbers
	cd docs/report && pdflatex -interaction=nonstopmode -halt-on-error report.tex >/dev/null && pdflatex -interaction=nonstopmode -halt-on-error report.tex >/dev/null
	@echo "wrote docs/report/report.pdf"

outputs: $(VENV)/.all              ## run the code on every page and write what it prints below it; ARGS=docs/PAGE.md for one
	$(BIN)/python -m tests.pages $(ARGS)

# The oldest versions that pyproject.toml allows, in a separate environment (OLDEST=PATH). Old packages warn about newer
# versions of their own dependencies, which are not pinned.
OLDEST ?= .venv-oldest
test-oldest:                       ## the tests with the oldest packages that are supported; ARGS="tests/game" for a part
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt -e '.[all,test]'
	$(OLDEST)/bin/python -m pytest -q $(WORKERS) -W ignore::DeprecationWarning -W ignore::FutureWarning $(ARGS)

proofs: $(VENV)/.dev               ## check the statements of both papers
	$(BIN)/python -m proofs_check

# Runs in a copy, build/mutants, because every change is made to the file itself.
mutants: $(VENV)/.mutants          ## do the tests notice changes to a module? ARGS="attn_closed_form/MODULE.py tests/TEST.py"
	@test -n "$(word 2,$(ARGS))" || { echo 'name a module and its tests: make mutants ARGS="MODULE.py TEST.py"'; exit 2; }
	rm -rf build/mutants && mkdir -p build/mutants && git ls-files -z | tar -c --null -T - | tar -x -C build/mutants
	sed -e 's|MODULE|$(firstword $(ARGS))|' -e 's|TESTS|$(wordlist 2,99,$(ARGS))|' .ci/cosmic-ray.toml > build/mutants/config.toml
	cd build/mutants && export PATH="$(abspath $(BIN)):$$PATH" PYTHONDONTWRITEBYTECODE=1 && cosmic-ray baseline config.toml \
	&& cosmic-ray init config.toml session.sqlite && cr-filter-operators session.sqlite config.toml \
	&& cr-filter-pragma session.sqlite && cosmic-ray exec config.toml session.sqlite \
	&& cr-report --surviving-only --show-diff session.sqlite

# The same at random places of all that the wheel contains (.ci/mutants.py). After `python .ci/mutants.py --map tests/game`
# and other folders, a sample begins with the tests that execute the changed line.
mutants-sample: $(VENV)/.mutants   ## 300 random changes; about an hour
	rm -rf build/mutants && mkdir -p build/lines build/mutants/build && git ls-files -z | tar -c --null -T - | tar -x -C build/mutants
	ln -s $(abspath build/lines) build/mutants/build/lines
	cd build/mutants && PATH="$(abspath $(BIN)):$$PATH" PYTHONDONTWRITEBYTECODE=1 python .ci/mutants.py --sample 300 $(ARGS)

# Changes by hand: every constant of the proof too small, and what no test of 0.3 noticed in the rest of the mathematics.
mutants-proof: $(VENV)/.dev        ## is every constant of the proof felt by its test? some ten minutes
	rm -rf build/mutants && mkdir -p build/mutants && git ls-files -z | tar -c --null -T - | tar -x -C build/mutants
	cd build/mutants && python=$(abspath $(BIN))/python && $$python .ci/proof_changes.py $(ARGS) \
	&& $$python .ci/proof_changes.py --table .ci/other_changes.toml $(ARGS)

bench-device: $(VENV)/.dev         ## documents per second on every device that JAX finds; DATA=PATH for IMDB's reviews
	$(BIN)/python -m benchmarks.device $(if $(DATA),--data $(DATA)); status=$$?; \
	$(BIN)/python -m benchmarks.devices_page && exit $$status

format: $(VENV)/.dev               ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The papers' tables and figures: a small size into benchmarks/results/quick, or the size of RESULTS.md, which takes
# hours and resumes after an interruption. DATA is a folder with the files that the papers used: aclImdb_v1.tar.gz and
# Yelp-HAT's ham_part*.csv.
reproduce: $(VENV)/.dev            ## make reproduce DATA=PATH
	@test -n "$(DATA)" || { echo "name the folder of the data: make reproduce DATA=PATH"; exit 2; }
	$(BIN)/python -m benchmarks.papers.reproduce --data $(DATA) --quick

reproduce-full: $(VENV)/.dev       ## make reproduce-full DATA=PATH
	@test -n "$(DATA)" || { echo "name the folder of the data: make reproduce-full DATA=PATH"; exit 2; }
	$(BIN)/python -m benchmarks.papers.reproduce --data $(DATA)

# One stamp per set of packages: reinstalled only when pyproject.toml changes.
$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: EXTRAS = dev
$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL)
	@touch $@ $(VENV)/.core

# torch is installed first and pinned, so that it stays a CPU build; what is imported is compiled when it is.
$(VENV)/.all: EXTRAS = dev,transformers
$(VENV)/.all: pyproject.toml | $(BIN)/python
	$(PIP) --no-compile torch==2.13.0
	$(INSTALL)
	@touch $@ $(VENV)/.dev $(VENV)/.core

$(VENV)/.mutants: EXTRAS = dev,mutants
$(VENV)/.mutants: pyproject.toml | $(BIN)/python
	$(INSTALL)
	@touch $@ $(VENV)/.dev $(VENV)/.core

$(VENV)/.workflows: EXTRAS = workflows
$(VENV)/.workflows: pyproject.toml | $(BIN)/python
	$(INSTALL)
	@touch $@

$(VENV)/.docs: EXTRAS = docs
$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(INSTALL)
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) $(OLDEST) site build *.egg-info .pytest_cache .mypy_cache .ruff_cache
