# make demo    sets everything up, converts an example notebook and trains it on two ranks
# make check   the inner loop: lint, types, contracts, the site, and every test that starts no rank and no browser
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

# Bytecode is kept, whatever the shell says: the tests start hundreds of short processes.
unexport PYTHONDONTWRITEBYTECODE

# What `verify` found is kept here, by all that it depends on, and which tests of `make check` passed; LEDGER= runs everything again.
LEDGER ?= $(CURDIR)/.ledger
export JUPYTER_HVD_LEDGER = $(LEDGER)

# $(call install,FOLDER,ARGUMENTS) installs into a virtual environment: by uv, which is several times as fast as pip, or by pip where
# uv cannot (where only pip's own settings know the index, say).
install = { $(1)/bin/pip install --quiet uv && $(1)/bin/uv pip install --quiet --compile-bytecode --python $(1)/bin/python $(2); } || $(1)/bin/pip install --quiet $(2)

# What uses one core each is done at once.
TOGETHER = --jobs=2 --output-sync=target

.PHONY: needs env env-tf215 env-tf218 env-mpi demo check test test-python test-thorough test-distribute lint lint-ts test-ts test-ui fuzz-tensor fuzz-convert bench corpus coverage labextension format docs site binder clean

env: $(VENV)/.ready

# TensorFlow and what Horovod's build needs come first, then Horovod, compiled for exactly that TensorFlow. The
# package is linked without its build hooks: `make labextension` builds that part, and it alone needs Node.
$(VENV)/.ready: requirements/tf221.txt pyproject.toml
	@echo "TensorFlow, JAX, JupyterLab and Horovod come into $(VENV): a minute, or a quarter of an hour where they are fetched and Horovod is compiled"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "The pinned packages are for Python 3.11; say which one with  make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
# Through the link that `labextension` makes, an installation before has put its own file among what is to be installed.
	rm -rf $(VENV)/share/jupyter/labextensions/jupyter-hvd jupyter_hvd/labextension/install.json
	$(call install,$(VENV),--requirement requirements/tf221.txt)
	export HATCH_BUILD_NO_HOOKS=true; $(call install,$(VENV),--no-deps --editable .)
	$(BIN)/python -m jupyter_hvd install
	touch $@

# The second: Keras 2 in TensorFlow itself, and an older JAX.
env-tf215: $(VENV)-tf215/.ready

$(VENV)-tf215/.ready: requirements/tf215.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)-tf215
	$(call install,$(VENV)-tf215,--requirement requirements/tf215.txt)
	export HATCH_BUILD_NO_HOOKS=true; $(call install,$(VENV)-tf215,--no-deps --editable .)
	$(VENV)-tf215/bin/python -m jupyter_hvd install
	touch $@

# The third, for `make test-thorough`: a newer TensorFlow with Keras 2 as a package of its own.
env-tf218: $(VENV)-tf218/.ready

$(VENV)-tf218/.ready: requirements/tf218.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)-tf218
	$(call install,$(VENV)-tf218,--requirement requirements/tf218.txt)
	$(call install,$(VENV)-tf218,--no-deps tf-keras==2.18.0)
	export HATCH_BUILD_NO_HOOKS=true; $(call install,$(VENV)-tf218,--no-deps --editable .)
	$(VENV)-tf218/bin/python -m jupyter_hvd install
	touch $@

# The first, with a Horovod for `--launcher mpirun` above it; mpicxx and mpirun are the system's.
env-mpi: $(VENV)-mpi/.ready

$(VENV)-mpi/.ready: $(VENV)/.ready
	$(BIN)/python -m venv $(VENV)-mpi
	echo "import site; site.addsitedir('$(CURDIR)/$(VENV)/lib/python3.11/site-packages')" > $(VENV)-mpi/lib/python3.11/site-packages/below.pth
	$(VENV)-mpi/bin/python -m jupyter_hvd install --mpi
	touch $@

demo: env
	@$(BIN)/python scripts/demo.py

# What the system lacks is said in the first second, not after half an hour.
needs:
	@scripts/needs >/dev/null

check:
	@scripts/needs check >/dev/null
	$(MAKE) $(TOGETHER) lint test-ts site
	$(BIN)/pytest -q --numprocesses=2 -m "not slow and not thorough" $(if $(LEDGER),--unless-passed=$(LEDGER)/tests.json)

test: needs
	$(MAKE) env
	$(MAKE) $(TOGETHER) lint test-ts site env-tf215 binder
	$(MAKE) test-python
	$(MAKE) test-ui

# Three workers on two cores: what starts processes waits for them now and then.
test-python: env env-tf215
	$(BIN)/pytest -q --numprocesses=3 --dist=loadgroup --no-loadscope-reorder

# What `make test` leaves out for its length, and every program on every Keras.
test-thorough: env env-tf215 env-tf218
	$(BIN)/pytest -q -m thorough
	$(VENV)-tf215/bin/pytest -q -o addopts=--import-mode=importlib tests/test_programs.py
	TF_USE_LEGACY_KERAS=1 $(VENV)-tf218/bin/pytest -q -o addopts=--import-mode=importlib tests/test_programs.py

# Ranks that live in a notebook alone: real kernels, real ranks, and faults, in a table at the end.
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

# Random training programs, converted and run on two living ranks: FUZZ='--programs 500 --start 1000 --workers 2'.
fuzz-convert: env
	$(BIN)/python tests/generated/fuzz.py $(FUZZ)

# Kernels beside direct JAX, the newest, in one table, and step times as predicted and measured: docs/performance.md, its plots, and a table of docs/distribute.md are made anew.
bench: env
	$(BIN)/python benchmarks/tensor_kernels.py --write
	$(BIN)/python benchmarks/tensor_peers.py --write
	$(BIN)/python benchmarks/estimates.py --write

# Thousands of files of other people's TensorFlow code, downloaded, converted and thrown away.
corpus: env
	$(BIN)/python tests/corpus.py

# Notebooks that somebody has fetched: make coverage NOTEBOOKS="tensorflow-docs=FOLDER …"; their part of docs/corpus.md.
coverage: env
	$(BIN)/python tests/notebooks.py $(NOTEBOOKS) --write docs/corpus.md

docs: env
	$(BIN)/python -m jupyter_hvd.convert.documentation > docs/rules.md
	$(BIN)/python scripts/kernels_page.py > docs/kernels.md
	$(BIN)/python scripts/numpy_page.py > docs/numpy.md

# README and docs as a site, in build/site; a link that leads nowhere fails it.
site: env node_modules/.yarn-state.yml
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs --doctree-dir build/doctrees . build/site

# What Binder would run, in a clean folder: minutes where something has changed that it depends on, else nothing.
binder:
	PYTHON=$(PYTHON) scripts/binder

clean:
	rm -rf $(VENV) $(VENV)-tf215 $(VENV)-tf218 $(VENV)-mpi dist build
