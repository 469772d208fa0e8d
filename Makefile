# `make demo` and `make test` need only Python >= 3.11 with pip, and make.
PYTHON ?= python3
VENV ?= .venv
# Workers of pytest; `make test TORCH=` leaves torch and the tests that need it out.
JOBS ?= auto
TORCH ?= torch
TARGETS = gfx942 gfx950 gfx1100 gfx1201

BIN = $(VENV)/bin
PACKAGES = flydsl-core flydsl-rocdl flydsl-emu kernels-attention kernels-gemm kernels-moe kernels-norm
EDITABLE = $(PACKAGES:%=-e packages/%)
PROJECTS = $(PACKAGES:%=packages/%/pyproject.toml)

.PHONY: help demo test check bench clean
help:
	@echo 'make demo    install into $(VENV) and run the examples in the emulator'
	@echo 'make test    run the tests'
	@echo 'make check   run the linters, type checker, layer contracts and documentation checks'
	@echo 'make bench   run the benchmarks'
	@echo 'make clean   remove what the above made'

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo '$(PYTHON) is older than Python 3.11: make PYTHON=python3.x'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	touch $@

$(VENV)/.installed: $(VENV)/.made $(PROJECTS) pyproject.toml
	$(BIN)/python -m pip install -q $(EDITABLE) --group demo
	touch $@

$(VENV)/.test: $(VENV)/.installed pyproject.toml
	$(BIN)/python -m pip install -q -c constraints/torch-cpu.txt --group test $(TORCH:%=--group %)
	touch $@

$(VENV)/.check: $(VENV)/.test pyproject.toml
	$(BIN)/python -m pip install -q --group lint --group types
	touch $@

demo: $(VENV)/.installed
	@set -e; for target in $(TARGETS); do for example in examples/[0-9]*.py; do \
	  $(BIN)/python $$example --target $$target; done; done

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS)

check: $(VENV)/.check
	PATH="$(abspath $(BIN)):$$PATH" nox --no-venv -s lint types layers

bench: $(VENV)/.test
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) .nox .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
