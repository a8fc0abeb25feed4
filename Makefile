# Two commands show everything: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Tests and the stack start hundreds of commands: without its bytecode, each would be compiled anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint format clean

demo: .venv/installed
	$(BIN)/bench demo

# Most tests wait for something, so they run beside each other; those that are marked as quiet follow alone.
test: .venv/installed-dev
ifdef PYTEST_ARGS
	$(BIN)/pytest $(PYTEST_ARGS)
else
	$(BIN)/pytest --numprocesses 2 --dist worksteal tests/unit tests/integration
	$(BIN)/pytest --numprocesses 2 --dist loadfile -m 'not quiet' tests/e2e
	$(BIN)/pytest -m quiet tests/e2e
endif

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The stamp is younger than pyproject.toml, so a changed dependency is installed at the next command.
.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"hypergauge needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

clean:
	rm -rf .venv
