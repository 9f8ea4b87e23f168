# Needs Python 3.11 and make; everything else comes hash-checked into .venv.
# The distribution's own build, where there is one that can make environments: builds from source are often a quarter slower.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip, venv' 2>/dev/null && echo /usr/bin/python3.11 || echo python3.11)
BIN := .venv/bin
# Modules are compiled when they are first imported: most never are, and compiling all takes longer than unpacking.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps
RUNS := .venv/.runs
READY := .venv/.ready

# Some images set it. Every process here would then compile all it imports anew, which takes longer than all else it does
# at its start: a gateway's start takes 1.4 instead of 0.5 s of a core.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-nightly test-agents fuzz check bench bench-forecast lock clean

demo: $(RUNS)
	$(BIN)/tidegate demo

test: $(READY)
	$(BIN)/python tests/suites.py test

test-nightly: $(READY)
	$(BIN)/python tests/suites.py nightly

test-agents: $(READY)
	$(BIN)/python tests/suites.py agents

fuzz: $(READY)
	$(BIN)/python tests/suites.py fuzz

check: $(READY)
	$(BIN)/python tests/suites.py check

bench: $(READY)
	$(BIN)/python tests/suites.py bench

bench-forecast: $(READY)
	$(BIN)/python tests/bench/forecast/run.py $(FORECAST)

# What it takes to run Tidegate and its demo. What tests and checks need comes on top, at the same versions.
$(RUNS): requirements-demo.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or run make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements-demo.lock
	$(INSTALL) --no-build-isolation --editable .
	@touch $(RUNS)

$(READY): $(RUNS) requirements.lock
	$(INSTALL) --require-hashes -r requirements.lock
	@touch $(READY)

# Developers only: resolve again. Names and hashes, no addresses. The small locks, for the demo and the image,
# take their versions from the large one.
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --no-header
lock:
	$(COMPILE) pyproject.toml --all-extras --group dev --group build --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra kafka --extra demo --group build --constraint requirements.lock --output-file requirements-demo.lock
	$(COMPILE) pyproject.toml --extra kafka --constraint requirements.lock --output-file requirements-runtime.lock
	$(COMPILE) --group build --constraint requirements.lock --output-file requirements-build.lock

clean:
	rm -rf .venv build dist
