.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
PYTHON ?= python3
ARGS ?=
CODE := kafkalog inspector pyspark_kafkalog
KERNELS := $(wildcard kafkalog/_speedups/*.pyx)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ASAN := $(CURDIR)/build/asan/lib

demo: .venv/compiled ## the command at work on logs that real brokers wrote
	$(BIN)/python -m kafkalog.cli.demo tests/data
test: .venv/test ## the fast tier of the tests, two minutes; ARGS="-k varint" chooses
	$(BIN)/python -m tests.tiers fast -- $(ARGS)
test-all: test ## every tier; make test-slow, test-spark and so on: one of them
	$(BIN)/python -m tests.tiers --done fast slow tui property oracle broker spark -- $(ARGS)
test-%: .venv/test
	$(BIN)/python -m tests.tiers $* -- $(ARGS)
test-pythons: .venv/test ## the fast tier on every supported Python that is here
	$(BIN)/nox $(ARGS)
coverage: .venv/test ## the tiers fast, tui and slow with branch coverage; build/coverage/index.html
	$(BIN)/python -m tests.tiers --coverage fast tui slow -- $(ARGS)
lint: .venv/lint .venv/test ## style, types, stubs, imports, spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PATH="$(BIN):$$PATH" $(BIN)/cython-lint kafkalog
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist .stubtest-allow \
		--ignore-unused-allowlist $(subst /,.,$(KERNELS:.pyx=))
	$(BIN)/lint-imports
	$(BIN)/codespell
bench: .venv/test .venv/bench ## kafkalog beside its peers
	$(BIN)/python asv_bench/peers.py $(ARGS)
docs: .venv/compiled .venv/docs ## the pages, in build/docs
	$(BIN)/python -m sphinx -W -q docs build/docs
asan: .venv/test ## the fast tier on kernels built with the address sanitizer
	CFLAGS="-fsanitize=address -fno-omit-frame-pointer -g -O1" LDFLAGS=-fsanitize=address \
		$(BIN)/python setup.py --quiet build --build-base build/asan --build-lib $(ASAN)
	LD_PRELOAD="$(foreach lib,libasan.so libstdc++.so.6,$(shell $(CC) -print-file-name=$(lib)))" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=$(ASAN) \
		$(BIN)/pytest -q --capture=sys -m "not (tui or slow or oracle or broker or spark)" $(ARGS)
fuzz: .venv/test ## damaged bytes until something gives; ARGS="-h"
	$(BIN)/python -m tests.fuzz.fuzz_decode $(ARGS)
clean: ## back to a fresh clone
	git clean -fdXq -e '!.idea' -e '!.vscode'
help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

.venv/pip:
	$(PYTHON) -m venv .venv
	$(PIP) install 'pip>=25.1'
	@touch $@
.venv/installed: .venv/pip pyproject.toml setup.py
	$(PIP) install --group build
	$(PIP) install --no-build-isolation -e .
	@touch $@
# Compiles again what has changed since.
.venv/compiled: .venv/installed $(KERNELS) $(wildcard kafkalog/_speedups/*.pxd)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@
.venv/test .venv/lint .venv/bench .venv/docs: .venv/%: .venv/compiled
	$(PIP) install 'kafkalog[all]' --group $*
	@touch $@
.PHONY: demo test test-all test-pythons coverage lint bench docs asan fuzz clean help
