# Needs Python 3.11 and make; everything else comes hash-checked into .venv.
PYTHON ?= python3.11
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-nightly test-agents fuzz check bench bench-forecast lock clean

demo: $(READY)
	$(BIN)/tidegate demo

test: $(READY)
	$(BIN)/python tests/suites.py test

test-nightly: $(READY)
	$(BIN)/python tests/suites.py nightly

test-agents: $(READY)
	$(BIN)/python tests/suites.py agents

# Seconds for each parser; at night it is one minute.
fuzz: export TIDEGATE_FUZZ_S ?= 600
fuzz: $(READY)
	$(BIN)/python tests/suites.py fuzz

check: $(READY)
	$(BIN)/python tests/suites.py check

bench: $(READY)
	$(BIN)/python tests/suites.py bench

bench-forecast: $(READY)
	$(BIN)/python tests/bench/forecast/run.py $(FORECAST)

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or run make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

# Developers only: resolve again. Names and hashes, no addresses. The two small locks are for the image and
# take their versions from the large one.
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --no-header
lock:
	$(COMPILE) pyproject.toml --all-extras --group dev --group build --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra kafka --constraint requirements.lock --output-file requirements-runtime.lock
	$(COMPILE) --group build --constraint requirements.lock --output-file requirements-build.lock

clean:
	rm -rf .venv build dist
