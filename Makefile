# make demo    sets everything up, converts an example notebook and trains it on two ranks
# make check   the inner loop: lint, types, contracts, and every test that starts no rank and no browser
# make test    everything
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# jlpm and jupyter-builder, which build the JupyterLab extension, are the environment's; Node is the system's.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export CHROMIUM ?= /usr/bin/chromium
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The compiled parts of TensorFlow and Horovod speak at length at start; their errors still come through.
export TF_CPP_MIN_LOG_LEVEL ?= 2

# What `verify` found is kept here, by all that it depends on; LEDGER= runs every verification again.
LEDGER ?= $(CURDIR)/.ledger
export JUPYTER_HVD_LEDGER = $(LEDGER)

.PHONY: needs env env-tf218 demo check test test-programs test-thorough test-rest test-distribute lint lint-ts test-ts test-ui fuzz-tensor bench corpus labextension format docs clean

env: $(VENV)/.ready

# TensorFlow and what Horovod's build needs come first, then Horovod, compiled for exactly that TensorFlow. The
# package is linked without its build hooks: `make labextension` builds that part, and it alone needs Node.
$(VENV)/.ready: requirements/tf215.txt pyproject.toml scripts/horovod-wheel
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "TensorFlow 2.15 needs Python 3.11; say which one with  make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements/tf215.txt
	scripts/horovod-wheel $(BIN)/python
	HATCH_BUILD_NO_HOOKS=true $(BIN)/pip install --quiet --no-deps --editable .
	touch $@

# The second TensorFlow: newer, with Keras 2 as a package of its own, and the newest JAX.
env-tf218: $(VENV)-tf218/.ready

$(VENV)-tf218/.ready: requirements/tf218.txt pyproject.toml scripts/horovod-wheel
	$(PYTHON) -m venv $(VENV)-tf218
	$(VENV)-tf218/bin/pip install --quiet --requirement requirements/tf218.txt
	$(VENV)-tf218/bin/pip install --quiet --no-deps tf-keras==2.18.0
	scripts/horovod-wheel $(VENV)-tf218/bin/python
	HATCH_BUILD_NO_HOOKS=true $(VENV)-tf218/bin/pip install --quiet --no-deps --editable .
	touch $@

demo: env
	@$(BIN)/python scripts/demo.py

# What the system lacks is said in the first second, not after half an hour.
needs:
	@scripts/needs >/dev/null

check:
	@scripts/needs check >/dev/null
	$(MAKE) lint test-ts
	$(BIN)/pytest -q --numprocesses=2 -m "not slow and not thorough"

test: needs
	$(MAKE) lint test-ts env-tf218
	$(MAKE) --jobs=2 --output-sync test-programs test-rest
	$(MAKE) test-distribute
	$(MAKE) test-ui

# Two halves that run side by side; living ranks, whose faults are timed, and the browser have the machine to themselves.
test-programs: env
	$(BIN)/pytest -q tests/test_programs.py

# What `make test` leaves out for its length: a program for each restriction of the rules.
test-thorough: env
	$(BIN)/pytest -q -m thorough

test-rest: env env-tf218
	$(BIN)/pytest -q --ignore=tests/test_programs.py --ignore=tests/distribute

# Ranks that live in a notebook: real kernels, real ranks, and faults.
test-distribute: env
	$(BIN)/pytest -q --numprocesses=2 --dist=loadfile --no-loadscope-reorder tests/distribute

lint: env lint-ts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

node_modules/.yarn-state.yml: package.json yarn.lock | $(VENV)/.ready
	@node --version >/dev/null || { echo "the JupyterLab extension needs Node 20 to be built"; exit 1; }
	jlpm install --immutable
	touch $@

# Built in place; the environment's JupyterLab takes it from here, so that a rebuilt one is there at once.
labextension: node_modules/.yarn-state.yml
	jlpm build:prod
	rm -rf $(VENV)/share/jupyter/labextensions/jupyter-hvd
	ln -s $(CURDIR)/jupyter_hvd/labextension $(VENV)/share/jupyter/labextensions/jupyter-hvd
	mkdir -p $(VENV)/etc/jupyter/jupyter_server_config.d
	cp jupyter-config/server-config/jupyter_hvd.json $(VENV)/etc/jupyter/jupyter_server_config.d

lint-ts: node_modules/.yarn-state.yml
	jlpm lint

test-ts: node_modules/.yarn-state.yml
	jlpm test

test-ui: labextension
	@test -x $(CHROMIUM) || { echo "the browser tests need Chromium: apt-get install chromium, or CHROMIUM=/path/to/it"; exit 1; }
	jlpm test:ui

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	jlpm format

# Random tensor programs against the theorems, for an hour or two.
fuzz-tensor: env
	$(BIN)/python tests/tensor/fuzz.py --programs 100000 --workers 2

# Kernels beside direct JAX, the newest, in one table; docs/performance.md and its plots are made anew.
bench: env-tf218
	$(VENV)-tf218/bin/python benchmarks/tensor_kernels.py --write

# Thousands of files of other people's TensorFlow code, downloaded, converted and thrown away.
corpus: env
	$(BIN)/python tests/corpus.py

docs: env
	$(BIN)/python -m jupyter_hvd.convert.documentation > docs/rules.md
	$(BIN)/python scripts/kernels_page.py > docs/kernels.md

clean:
	rm -rf $(VENV) $(VENV)-tf218 dist build
