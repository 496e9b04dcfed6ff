# Everything starts here; each target makes what it needs first, and does nothing where it is made already.
PYTHON ?= python3
UV ?= uv
BIN := .venv/bin
# Compiled modules are kept beside their sources, whatever the shell says: each test process would compile all tests anew.
export PYTHONDONTWRITEBYTECODE :=

WORKERS ?= 2
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SEEDS ?= 0-19
JOBS ?= 4
DRAWN ?= 200

.PHONY: help setup tools demo demo-tuning test test-jobs test-system check bench soak lock clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: ## make .venv from the hashed lock
	@$(PYTHON) tools/setup.py

tools: setup ## build the sandbox's tools, once per version
	@$(BIN)/python -m encamp_sandbox.tools

demo: setup ## the first five minutes: an example job through the sandbox
	@$(BIN)/encamp demo

demo-tuning: setup ## trials of an example, more of them, and the best one's model
	@$(BIN)/encamp demo --tuning

test: tools ## every room, and the main job from its file to nothing left
	$(BIN)/python -m pytest $(SPREAD) -m "not jobs and not system"

test-jobs: tools ## every example, every end that a job can come to, and jobs killed at seeded steps, in the sandbox
	$(BIN)/python -m pytest $(SPREAD) -m jobs

test-system: tools ## the tests that need root or Debian's packages
	$(BIN)/python -m pytest -m system

check: setup ## style, types, import contracts, and the quick tests that need nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyrefly check
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(SPREAD) -m "not sandbox and not slow and not jobs and not system"

bench: tools ## each benchmark against its floor or a peer
	@$(BIN)/encamp sandbox up && $(BIN)/encamp environment up
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

soak: tools ## kill what runs are made of, SEEDS=0-99, JOBS=4 at once, and count what is left; draw DRAWN requests
	@$(BIN)/python tools/soak.py --seeds $(SEEDS) --jobs $(JOBS)
	@ENCAMP_DRAWN=$(DRAWN) $(BIN)/python -m pytest -q -n 0 tests/api/test_drawn_requests.py

lock: ## write requirements.lock anew from pyproject.toml; needs uv
	$(UV) pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --quiet --output-file requirements.lock

clean: ## remove what setup and the checks made; a sandbox goes by `encamp sandbox reset`
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .pyrefly_cache build dist
	find infra tests examples tools -name __pycache__ -prune -exec rm -r {} +
