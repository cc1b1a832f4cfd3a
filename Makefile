# The two commands a newcomer needs: make demo, make test. Each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What is installed as ratchet.*: pyright finds it by links, because it does not follow an editable install.
FOLDERS := api cli data_curation evaluation examples flows infra rehearsal tasks training verifiers
# Two more than there are cores: tests also wait for processes, servers and limits.
WORKERS ?= $(shell expr $$(nproc) + 2)
# What is checked for spelling and style.
PROSE := README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md .github docs recipes tests benchmarks research environments $(FOLDERS)

.PHONY: help demo test test-slow coverage lint docs ui clean

help:  ## What there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(READY)  ## The whole pipeline on this machine: curate, train, evaluate, report (two to four minutes)
	$(BIN)/ratchet run tiny

test: $(READY)  ## All tests (ten minutes on two cores); a failure is named when it happens
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-slow: $(READY)  ## The tests that take too long for every change
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

coverage: $(READY)  ## All tests, and which lines they run in pytest's own processes: build/coverage.md
	@mkdir -p build
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cov --cov-report=
	$(BIN)/python -m coverage report --format=markdown --skip-covered | tee build/coverage.md

lint: $(READY)  ## Style, spelling, the import contract, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell -D - -D docs/tools/words.txt $(PROSE)
	$(BIN)/lint-imports
	@mkdir -p build/types/ratchet && for folder in $(FOLDERS); do ln -sfn $(CURDIR)/$$folder build/types/ratchet/; done
	$(BIN)/pyright

docs: $(READY)  ## The documentation site, build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

ui: $(READY)  ## MLflow and Prefect on loopback, with the addresses of the last run
	$(BIN)/ratchet ui

clean:  ## Remove the virtual environment and everything that was made
	rm -rf $(VENV) .ratchet build

# Without an NVIDIA GPU: torch for CPUs, which lacks several GB of CUDA. Where its index is not reachable, the ordinary one is taken.
CPU_TORCH := https://download.pytorch.org/whl/cpu
# DeepSpeed builds from source: it must see the torch that is installed, and compile no kernels ahead of time.
$(READY): pyproject.toml verifiers/pyproject.toml data_curation/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Ratchet needs Python 3.11 or newer; $(PYTHON) is `$(PYTHON) -V`. Use: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up $(VENV): two minutes or more, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt pip setuptools wheel
	@command -v nvidia-smi > /dev/null || $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt --no-deps \
		--index-url $(CPU_TORCH) --retries 0 --timeout 15 torch 2> $(VENV)/cpu-torch.log || \
		echo "No torch for CPUs from $(CPU_TORCH) ($(VENV)/cpu-torch.log): taking the ordinary one, with 4 GB of CUDA libraries."
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch ninja psutil py-cpuinfo
	DS_BUILD_OPS=0 $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e verifiers -e data_curation -e '.[dev]'
	@touch $(READY)
