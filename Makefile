# Start with `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Tests and the stack start hundreds of commands. Without bytecode, each would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint docs reference pictures format clean

demo: .venv/installed
	$(BIN)/bench demo

# Selection of `make test`: no slow tests, and TimescaleDB only for tests of a difference between the flavours.
QUICK := not slow and (not timescale or flavours)
# Most tests wait, so they run in parallel; those of an end-to-end file or class share a process. Tests that are marked `quiet`
# follow alone.
PYTEST := $(BIN)/pytest
PARALLEL := $(PYTEST) --numprocesses 4

test: .venv/installed-dev
ifdef PYTEST_ARGS
	$(PYTEST) $(PYTEST_ARGS)
else
	$(PARALLEL) --dist worksteal -m '$(QUICK)' tests/unit tests/integration
	$(PARALLEL) --dist loadscope -m '$(QUICK) and not quiet' tests/e2e
	$(PYTEST) -m '$(QUICK) and quiet' tests/e2e
endif

# All other tests: the second flavour, volume, faults, third-party software.
test-all: .venv/installed-dev
	$(PARALLEL) --dist worksteal -m 'not ($(QUICK))' tests/unit tests/integration
	$(PARALLEL) --dist loadscope -m 'not ($(QUICK)) and not quiet' tests/e2e
	$(PYTEST) -m 'not ($(QUICK)) and quiet' tests/e2e

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as a site in build/site. A broken link is an error, and so are long sentences and table cells.
docs: .venv/installed-dev
	$(BIN)/python -m docs.words
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The generated parts of docs/reference, from the code.
reference: .venv/installed-dev
	$(BIN)/python -m docs.generate

# The pictures of the documentation; PICTURES="diagrams" for a part, "--grafana URL" for dashboards too.
pictures: .venv/installed-dev
	$(BIN)/python -m docs.pictures $(PICTURES)

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# After a change of pyproject.toml the stamp is out of date, so the next command installs changed dependencies.
.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"hypergauge needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11 …")'
	@echo "Setting up .venv, once: hypergauge with its dependencies, 1 GB on disk. A minute on a fast line, ten on a slow one …"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	@touch $@

.venv/installed-dev: .venv/installed
	@echo "Installing the tools of development into .venv, once: 0.5 GB more on disk, as long again …"
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

clean:
	rm -rf .venv
