# make demo    sets everything up, converts an example notebook and trains it on two ranks
# make test    sets everything up, runs every check
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The compiled parts of TensorFlow and Horovod speak at length at start; their errors still come through.
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: env demo test lint format docs clean

env: $(VENV)/.ready

# TensorFlow and what Horovod's build needs come first, then Horovod, compiled for exactly that TensorFlow.
$(VENV)/.ready: requirements/tf215.txt pyproject.toml scripts/horovod-wheel
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "TensorFlow 2.15 needs Python 3.11; say which one with  make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements/tf215.txt
	scripts/horovod-wheel $(BIN)/python
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

demo: env
	@$(BIN)/python scripts/demo.py

test: lint
	$(BIN)/pytest -q

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: env
	$(BIN)/python -m jupyter_hvd.convert.documentation > docs/rules.md

clean:
	rm -rf $(VENV) dist build
