# Trainstack. `make help` lists what there is.

PYTHON := .venv/bin/python
TRAINSTACK := .venv/bin/trainstack
# `make up STACK=<env>` brings another environment up.
STACK := dev

# `make up KUBECONFIG=<file>` uses that cluster. An environment of the local cluster uses no other one unless make's
# command line names it: a KUBECONFIG that happens to be exported is no request to train on that cluster.
LOCAL := $(shell grep -s "^ *local: true" Pulumi.$(STACK).yaml)
ifeq ($(origin KUBECONFIG),command line)
LOCAL :=
override KUBECONFIG := $(abspath $(KUBECONFIG))
export KUBECONFIG
else ifneq ($(LOCAL),)
unexport KUBECONFIG
endif

.DEFAULT_GOAL := help
.PHONY: help up down test test-tools bench unit integration cluster-test test-admission test-plan test-environments test-sweeps test-stateful test-kind faults slow-test lint format tools client-tools machine browser podman versions site dist lock venv clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# `trainstack up` builds the tools that it needs, after a cluster other than the local one has answered.
up: venv $(if $(LOCAL),machine) ## Train: local cluster, `pulumi up` of dev, progress, result (KUBECONFIG=<file>: on that cluster)
	@$(TRAINSTACK) up -s $(STACK) --yes

down: venv ## Stop the local cluster and leave nothing of it running
	@$(TRAINSTACK) cluster down

# The linters and the site use one core each. The output of each is printed at its end.
test: venv browser test-tools ## What CI runs: lint, the site, unit and integration tests, tests on a local cluster
	@$(MAKE) --jobs=2 --output-sync=target lint site
	@$(MAKE) unit
	@$(MAKE) cluster-test

# Bytecode is kept whatever the environment says: compiling the tests takes each process five seconds. No test is about
# log records, whose capture takes a fiftieth of the time.
unit: venv ## Unit tests: no cluster, no engine, no built tools
	@PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n auto -p no:logging -m "not slow" tests/unit

integration: venv browser ## Integration tests: with git, tar, a shell, a browser
	@PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n auto --dist loadfile -p no:logging -m "not slow" tests/integration

# A test that waits for pods uses no core: three processes keep two cores busy. Go's programs collect garbage less often:
# the clusters and commands have enough memory, and the tests wait for the cores.
PROCESSES := 3
cluster-test: venv browser test-tools ## Integration tests, and tests on a local cluster
	@PYTHONDONTWRITEBYTECODE= GOGC=400 $(PYTHON) -m pytest tests -m "not slow" --ignore tests/unit -n $(PROCESSES) --dist loadscope \
		--no-loadscope-reorder --durations 10 --durations-min 1

# `make test-admission CASES=… JUDGED=… TOGETHER=… CROWDS=… SEED=…` takes so many, and repeats those of a seed.
CASES := 1000
JUDGED := 20000
TOGETHER := 2000
CROWDS := 100
SEED := random
test-admission: venv machine tools ## Verdicts and plans against the real Kueue: 1,000 drawn cases, 20 scenarios on simulated nodes
	@TRAINSTACK_ADMISSION_CASES=$(CASES) TRAINSTACK_ADMISSION_JUDGED=$(JUDGED) TRAINSTACK_ADMISSION_TOGETHER=$(TOGETHER) \
		TRAINSTACK_ADMISSION_CROWDS=$(CROWDS) TRAINSTACK_ADMISSION_SEED=$(SEED) \
		$(PYTHON) -m pytest tests/admission tests/cluster/test_plan.py

test-plan: venv machine tools ## Plans of many runs on simulated GPU nodes against the real Kueue, with the figures of each
	@$(PYTHON) -m pytest tests/cluster/test_plan.py -n 2 -rP

test-environments: venv machine tools ## The reference systems, staging, Trainer and JobSet, files of 2 GiB: all tests of them
	@$(PYTHON) -m pytest $(addprefix tests/cluster/test_,sites.py systems.py gpu_products.py upstream.py trainer.py staging.py transfer.py)

test-sweeps: venv machine tools ## Sweeps: all tests of them, a thousand trials on simulated nodes among them
	@$(PYTHON) -m pytest tests/cluster/test_sweeps.py tests/cluster/test_sweep_faults.py tests/cluster/test_sweep_scale.py

# `make test-stateful TRAINSTACK_SEARCH_SEED=…` draws other sequences, and repeats those of a seed.
test-stateful: venv machine tools ## 300 drawn sequences of edits, commands and accidents on an API server alone, each step checked
	@TRAINSTACK_SEARCH_SEED=$(or $(TRAINSTACK_SEARCH_SEED),1) $(PYTHON) -m pytest tests/stateful

test-kind: venv machine podman tools ## The kind driver, with podman and a node image that is built first
	@$(PYTHON) -m pytest tests/cluster/test_kind.py -rP

# `make faults` draws a fresh series, and TRAINSTACK_FAULTS_SEED=… repeats one.
faults: venv machine tools ## Kills, outages and the like at drawn moments: all tests of what must survive them
	@TRAINSTACK_FAULTS_SEED=$(or $(TRAINSTACK_FAULTS_SEED),random) $(PYTHON) -m pytest tests/faults

# `make unit` runs few Hypothesis examples, the same in every run; this target runs more, with a fresh seed.
slow-test: venv machine browser podman tools ## Tests that take many minutes, on freshly drawn cases
	@$(PYTHON) -m pytest -n auto --hypothesis-profile fresh tests/unit
	@TRAINSTACK_FAULTS_SEED=$(or $(TRAINSTACK_FAULTS_SEED),random) $(PYTHON) -m pytest tests -m slow --ignore tests/unit

# `make bench BENCH="preview-dev up-dev"` measures these alone; `.venv/bin/python -m bench --list` has all.
bench: venv machine tools ## Measure all benchmarks on local clusters of their own, and store the results in docs/benchmarks.md
	@$(PYTHON) -m bench $(BENCH) --write

lint: venv ## ruff and mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy .

format: venv ## Let ruff format the code
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

tools: venv ## Build or find the engine and the cluster's programs (about 25 minutes the first time)
	@$(TRAINSTACK) dev tools

test-tools: machine tools ## Build what only the tests need: images, schedulers of Kueue's releases
	@$(PYTHON) -m tests.prepare

client-tools: venv
	@$(TRAINSTACK) dev tools --client

machine: venv
	@$(TRAINSTACK) dev machine --install

# Ubuntu's package `chromium-browser` only refers to a snap, which has no access to the tests' folders.
browser: ## Chromium from Debian, as root: the pages of reports are tested in it
	@command -v chromium >/dev/null || ! grep -qx ID=debian /etc/os-release || { apt-get -q update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends chromium; }

podman: ## podman from Debian, as root: the test of the kind driver uses it, and mounts /lib/modules into nodes
	@command -v podman >/dev/null || { apt-get -q update && \
		DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qy install --no-install-recommends podman; }
	@mkdir -p /lib/modules

versions: venv ## Every pinned version
	@$(TRAINSTACK) dev versions

# `make site REPOSITORY=https://github.com/<owner>/<repository>` links source files. NO_MKDOCS_2_WARNING
# suppresses mkdocs-material's announcement. With --quiet, mkdocs would not count the warnings that fail a strict build.
site: .trainstack/site/installed ## Build the documentation's site in dist/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 REPOSITORY="$(REPOSITORY)" .trainstack/site/bin/python -m mkdocs build

# The stamp is written last: an interrupted installation is repeated.
.trainstack/site/installed: trainstack/toolchain/site.lock | venv
	@$(PYTHON) -m venv --clear .trainstack/site
	@PIP_DISABLE_PIP_VERSION_CHECK=1 .trainstack/site/bin/pip --quiet install --require-hashes --requirement $<
	@touch $@

# `make dist TAG=v0.1.0` also checks that the tag is the version's, and that the changelog has its date.
dist: venv ## Build the wheel and the source archive of the last commit
	@$(TRAINSTACK) dev dist $(if $(TAG),--tag "$$TAG")

lock: venv ## Make the Python locks from pyproject.toml
	@$(TRAINSTACK) dev lock

venv: ## The Python environment
	@trainstack/toolchain/bootstrap.sh

clean: ## Remove this checkout's state and Python environment; the shared cache of tools stays
	@if [ -x $(TRAINSTACK) ]; then $(TRAINSTACK) cluster down; fi
	rm -rf .venv .trainstack .mypy_cache .ruff_cache .pytest_cache .hypothesis
