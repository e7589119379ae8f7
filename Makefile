# make demo    sets everything up, converts an example notebook and trains it on two ranks
# make check   the inner loop: lint, types, contracts, the site, and the fast tests that changes affect (no rank, no browser)
# make test    what this machine has the programs for, one case of each slow test; the last lines say what was left out
# make test-all  the same with all cases and the long tests, as CI runs it
# make system  installs those programs: a browser, sshd, Slurm, Open MPI, Node
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

# What `verify` found is kept here, by all that it depends on, and which tests passed, by what they depend on; LEDGER= runs all again.
LEDGER ?= $(CURDIR)/.ledger
export JUPYTER_HVD_LEDGER = $(LEDGER)
# `make test` leaves out long tests and further cases of slow ones (tests/selection.py, `@long` in ui-tests); BRIEF= runs them.
BRIEF ?= --brief
# CPU seconds for the tests of `make check`: of more that have changed, it runs a selection from every file; CHECK_SECONDS= runs all.
CHECK_SECONDS ?= 100

# scripts/environment.py takes a Python that fits: the one that PYTHON names, python3, or another on the PATH or of pyenv.
# PROXY=http://host:port is the way to the package index; WHEELS=FOLDER, which `make wheels` fills, stands in for it.
ENVIRONMENT = $(PYTHON) scripts/environment.py $(if $(filter-out default file undefined,$(origin PYTHON)),--python="$(PYTHON)") $(if $(PROXY),--proxy="$(PROXY)") $(if $(WHEELS),--wheels="$(WHEELS)")
NEEDS = $(PYTHON) scripts/needs.py
# Parts of `make test` note here what they leave out. With STRICT=1 it fails on skipped tests, but for the kinds listed in scripts/needs.py.
export JUPYTER_HVD_SKIPPED = $(CURDIR)/build/skipped

# What uses one core each is done at once.
TOGETHER = --jobs=2 --output-sync=target

.PHONY: system needs locks wheels env env-tf215 env-tf218 env-mpi env-mcp demo check test test-all test-python test-pythons test-thorough test-distribute accept lint lint-ts test-ts test-ui fuzz-tensor fuzz-convert bench gradbench corpus coverage labextension format docs site binder clean

env: $(VENV)/.ready

$(VENV)/.ready: requirements/tf221.txt requirements/uv.txt pyproject.toml | needs
	@$(ENVIRONMENT) $(VENV) tf221

# The second: Keras 2 in TensorFlow itself, and an older JAX. Without a Python 3.11 it is left out, and so are its tests.
env-tf215: $(VENV)-tf215/.ready

$(VENV)-tf215/.ready: requirements/tf215.txt requirements/uv.txt pyproject.toml | needs
	@$(PYTHON) scripts/environment.py $(VENV)-tf215 tf215 --optional $(if $(PROXY),--proxy="$(PROXY)") $(if $(WHEELS),--wheels="$(WHEELS)")

# The third, for `make test-thorough`: a newer TensorFlow with Keras 2 as a package of its own.
env-tf218: $(VENV)-tf218/.ready

$(VENV)-tf218/.ready: requirements/tf218.txt requirements/uv.txt pyproject.toml | needs
	@$(PYTHON) scripts/environment.py $(VENV)-tf218 tf218 $(if $(PROXY),--proxy="$(PROXY)") $(if $(WHEELS),--wheels="$(WHEELS)")

# The first, with a Horovod for `--launcher mpirun` above it; mpicxx and mpirun are the system's.
env-mpi: $(VENV)-mpi/.ready

$(VENV)-mpi/.ready: $(VENV)/.ready
	$(BIN)/python -m venv $(VENV)-mpi
	below=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && echo "import site; site.addsitedir('$$below')" > $$($(VENV)-mpi/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	$(VENV)-mpi/bin/python -m jupyter_hvd install --mpi $(if $(PROXY),--proxy "$(PROXY)") $(if $(WHEELS),--wheels "$(WHEELS)")
	touch $@

# Above the first, what tools for assistants are served and tested with; its server listens on a port, so the others do without.
env-mcp: $(VENV)-mcp/.ready

$(VENV)-mcp/.ready: $(VENV)/.ready requirements/mcp.txt
	$(BIN)/python -m venv $(VENV)-mcp
	below=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && echo "import site; site.addsitedir('$$below')" > $$($(VENV)-mcp/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	$(VENV)-mcp/bin/python -m pip install --quiet --require-hashes --requirement requirements/mcp.txt $(if $(PROXY),--proxy="$(PROXY)")
	touch $@

demo: env
	@$(BIN)/python scripts/demo.py

# What Horovod's compilation lacks is said in the first second, not after minutes.
needs:
	@$(NEEDS) build

system:
	@$(NEEDS) install

# Pins and hashes, from requirements/*.in and pyproject.toml; UPGRADE=--upgrade takes the newest.
locks: $(BIN)/uv
	scripts/locks

$(BIN)/uv:
	$(MAKE) env

# All packages of `make demo` in a folder, for a machine with the same Python and no network.
wheels: env
	@test -n "$(WHEELS)" || { echo "say where to: make wheels WHEELS=FOLDER"; exit 2; }
	$(PYTHON) scripts/environment.py $(VENV) --fill "$(WHEELS)" $(if $(PROXY),--proxy="$(PROXY)")

check: needs
	$(MAKE) env
	$(MAKE) $(TOGETHER) lint test-ts site
	$(BIN)/pytest -q --numprocesses=2 -m "not slow and not thorough" $(if $(LEDGER),--unless-passed=$(LEDGER)/tests.json $(if $(CHECK_SECONDS),--cpu-limit=$(CHECK_SECONDS)))

test: needs
	@echo "make test: lint, types and the site, then Python tests and those of the browser; tests that passed and have not changed are skipped."
	@rm -f $(JUPYTER_HVD_SKIPPED)
	$(MAKE) env
	$(MAKE) $(TOGETHER) lint test-ts site env-tf215 $(if $(WHEELS),,env-mcp) $(if $(BRIEF),,$(if $(HAS_MPI),env-mpi)) binder
	$(MAKE) test-python
	$(MAKE) test-ui
	@$(NEEDS) closing $(if $(STRICT),--strict)

# With nothing left out but what `make test-thorough` runs.
test-all:
	$(MAKE) test BRIEF=

# The demo and a tenth of the tests, another tenth for each, on the other Pythons that are found.
test-pythons: env
	@scripts/other_pythons

# Three workers on two cores: what starts processes waits for them now and then.
test-python: env env-tf215
	scripts/run_tests $(BIN)/pytest -q --numprocesses=3 --dist=loadgroup --no-loadscope-reorder $(BRIEF) $(if $(LEDGER),--unless-passed=$(LEDGER)/tests.json)

# What `make test-all` leaves out for its length, and every program on every Keras.
test-thorough: env env-tf215 env-tf218
	$(BIN)/pytest -q -m thorough
	$(VENV)-tf215/bin/pytest -q -o addopts=--import-mode=importlib tests/test_programs.py
	TF_USE_LEGACY_KERAS=1 $(VENV)-tf218/bin/pytest -q -o addopts=--import-mode=importlib tests/test_programs.py

# Ranks that live in a notebook alone: real kernels, real ranks, and faults, in a table at the end.
test-distribute: env
	$(BIN)/pytest -q --numprocesses=2 --dist=loadfile --no-loadscope-reorder tests/distribute

# The conversions of tests/programs, and docs/coverage.md, as they come out now: read the diff before you commit it.
accept: env
	ACCEPT=1 $(BIN)/pytest -q tests/convert/test_expected.py

# Folders and files whose words are checked.
PROSE = jupyter_hvd labextension ui-tests tests docs benchmarks examples scripts Makefile README.md CONTRIBUTING.md CHANGELOG.md

lint: env lint-ts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(PROSE)
	$(BIN)/mypy
	$(BIN)/lint-imports

node_modules/.yarn-state.yml: package.json yarn.lock | $(VENV)/.ready
	@test -n "$(HAS_NODE)" || { echo "the JupyterLab extension is built by Node 20.19 or newer: make system"; exit 1; }
	jlpm install --immutable
	touch $@

# Built in place; the environment's JupyterLab takes it from here, so that a rebuilt one is there at once.
labextension: node_modules/.yarn-state.yml
	jlpm build:prod
	rm -rf $(VENV)/share/jupyter/labextensions/jupyter-hvd
	ln -s $(CURDIR)/jupyter_hvd/labextension $(VENV)/share/jupyter/labextensions/jupyter-hvd
	mkdir -p $(VENV)/etc/jupyter/jupyter_server_config.d
	cp jupyter-config/server-config/jupyter_hvd.json $(VENV)/etc/jupyter/jupyter_server_config.d

# Without Node these are left out, with a line; and without a browser its tests.
HAS_NODE := $(shell $(NEEDS) has node)
HAS_BROWSER := $(shell $(NEEDS) has browser)
HAS_MPI := $(shell $(NEEDS) has mpi)
ifdef HAS_NODE
lint-ts: node_modules/.yarn-state.yml
	jlpm lint

test-ts: node_modules/.yarn-state.yml
	jlpm test

# README and docs as a site, in build/site; a link that leads nowhere fails it.
site: env node_modules/.yarn-state.yml
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs --doctree-dir build/doctrees . build/site

# What Binder would run, in a clean folder: minutes where something has changed that it depends on, else nothing.
binder: env
	PYTHON=$(CURDIR)/$(BIN)/python scripts/binder
else
lint-ts test-ts site binder:
	@$(NEEDS) skip node $@
endif

ifdef HAS_BROWSER
test-ui: labextension
	jlpm test:ui $(if $(BRIEF),--grep-invert @long)
	@$(if $(BRIEF),$(NEEDS) leave $@)
else
test-ui:
	@$(NEEDS) skip browser $@
endif

format: env
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	jlpm format

# Random tensor programs against the theorems, for an hour or two.
fuzz-tensor: env
	$(BIN)/python tests/tensor/fuzz.py --programs 100000 --workers 2

# 4,000 random training programs, scaled up and compared as functions of the examples seen.
fuzz-convert: env
	$(BIN)/pytest -q -m thorough tests/generated/test_scaled_programs.py

# Kernels beside direct JAX, the newest, in one table, and step times as predicted and measured: docs/performance-tables.md, its plots, and a table of docs/distribute-reference.md are written again.
bench: env
	$(BIN)/python benchmarks/tensor_kernels.py --write
	$(BIN)/python benchmarks/tensor_peers.py --write
	$(BIN)/python benchmarks/estimates.py --write

# GradBench's evaluations by this tool and others, on one core: make gradbench GRADBENCH=FOLDER, a checkout of it in which `make -C cpp` was run.
# JAX, TensorFlow and the C++ tools that compile take part, and PyTorch where $(VENV)-gradbench has it; OPTIONS are those of benchmarks/gradbench/compare.py.
gradbench: $(VENV)-gradbench/.ready
	@test -n "$(GRADBENCH)" || { echo "say where it is: make gradbench GRADBENCH=FOLDER"; exit 2; }
	$(MAKE) -C $(GRADBENCH)/tools/manual all
	$(VENV)-gradbench/bin/python benchmarks/gradbench/compare.py $(GRADBENCH) $(OPTIONS)

# Above the first, what GradBench's validators import.
$(VENV)-gradbench/.ready: $(VENV)/.ready requirements/gradbench.txt
	$(BIN)/python -m venv $(VENV)-gradbench
	below=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && echo "import site; site.addsitedir('$$below')" > $$($(VENV)-gradbench/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	$(VENV)-gradbench/bin/python -m pip install --quiet --require-hashes --requirement requirements/gradbench.txt $(if $(PROXY),--proxy="$(PROXY)")
	touch $@

# Thousands of files of other people's TensorFlow code, downloaded, converted and thrown away.
corpus: env
	$(BIN)/python tests/corpus.py

# Notebooks that somebody has fetched: make coverage NOTEBOOKS="tensorflow-docs=FOLDER …"; their part of docs/corpus-history.md.
coverage: env
	$(BIN)/python tests/notebooks.py $(NOTEBOOKS) --write docs/corpus-history.md

docs: env
	$(BIN)/python -m jupyter_hvd.convert.documentation > docs/rules.md
	$(BIN)/python scripts/kernels_page.py > docs/kernels.md
	$(BIN)/python scripts/numpy_page.py > docs/numpy.md
	$(BIN)/python scripts/modules_page.py > docs/modules.md
	$(BIN)/python scripts/messages_page.py > docs/messages.md

# Packages

.PHONY: release translations try-wheel

$(VENV)-release/.ready: requirements/release.txt
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/pip install --quiet --require-hashes --requirement requirements/release.txt
	touch $@

# A source distribution and from it a wheel, in dist/, both checked. Nothing is uploaded: RELEASE.md says how.
release: $(VENV)-release/.ready
	rm -rf dist lib jupyter_hvd/labextension
	$(VENV)-release/bin/python -m build
	$(VENV)-release/bin/twine check --strict dist/*
	$(VENV)-release/bin/check-wheel-contents dist/*.whl
	$(VENV)-release/bin/check-manifest
	$(VENV)-release/bin/python scripts/check_distributions.py dist
	@echo "dist/ is ready. Nothing is uploaded; RELEASE.md says how."

# The strings of the panels and settings, for translators: after a change of one.
translations: $(VENV)-release/.ready
	scripts/translations

# The wheel in a fresh environment, without Node, used in JupyterLab by a browser.
try-wheel: release node_modules/.yarn-state.yml
	PYTHON=$(CURDIR)/$(BIN)/python scripts/try_wheel

clean:
	rm -rf $(VENV) $(VENV)-py* $(VENV)-release $(VENV)-tf215 $(VENV)-tf218 $(VENV)-mpi $(VENV)-mcp $(VENV)-gradbench dist build
