.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TESTS := $(BIN)/python -m tests.tiers
KERNELS := $(wildcard kafkalog/_speedups/*.pyx kafkalog/_speedups/*.pxd)

demo: .venv/compiled ## the command at work on logs that real brokers wrote
	@set -e; PATH="$(abspath $(BIN)):$$PATH"; home=$$(mktemp -d); trap 'rm -rf "$$home"' EXIT; \
	for each in tests/data/*.tar.xz; do python -W ignore -m tarfile -e "$$each" "$$home"; done; \
	cd "$$home"; set -x; \
	kafkalog ls */data; \
	kafkalog verify --deep */data; \
	kafkalog dump kafka-0.8.2/data/v0-lz4-0 --limit 2; \
	kafkalog dump kafka-0.10.2/data/v1-logappend-0 --limit 2; \
	kafkalog dump kafka-3.9/data/v2-zstd-0 --from @2023-11-15T22:30Z --limit 2; \
	kafkalog dump kafka-3.9/data/v2-lz4-0 --from end-2 -o jsonl; \
	kafkalog dump kafka-3.9/data/v2-txn-0 --batches --limit 6
test: .venv/test ## the fast tier of the tests; ARGS="-k varint" chooses
	$(TESTS) fast -- $(ARGS)
test-all: test ## every tier; make test-slow, test-spark and so on: one of them
	$(TESTS) --done fast slow tui property oracle broker spark -- $(ARGS)
test-%: .venv/test
	$(TESTS) $* -- $(ARGS)
test-pythons: .venv/test ## the fast tier on every supported Python that is here
	$(BIN)/nox --session fast -- $(ARGS)
coverage: .venv/test ## branch coverage of the tiers fast, slow and tui, in build/coverage
	$(BIN)/coverage erase
	$(TESTS) --coverage fast slow tui -- $(ARGS)
lint: .venv/test .venv/lint ## style, types, stubs, imports, spelling: .pre-commit-config.yaml
	$(BIN)/pre-commit run --all-files $(ARGS)
docs: .venv/docs ## the pages, in build/docs
	$(BIN)/sphinx-build --quiet --fail-on-warning docs build/docs
bench: .venv/test .venv/bench ## kafkalog beside its peers
	$(BIN)/python asv_bench/peers.py $(ARGS)
asv-compare: .venv/test .venv/bench ## two commits: which cases are slower; ARGS="-h"
	$(BIN)/python asv_bench/compare.py $(ARGS)
asan: .venv/test ## the fast tier on kernels built with the address sanitizer
	$(BIN)/nox --session asan -- $(ARGS)
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
	$(PIP) install --no-build-isolation --editable .
	@touch $@
.venv/compiled: .venv/installed $(KERNELS)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@
.venv/test .venv/lint .venv/docs .venv/bench: .venv/%: .venv/compiled
	$(PIP) install 'kafkalog[all]' --group $*
	@touch $@
.PHONY: demo test test-all test-pythons coverage lint docs bench asv-compare asan fuzz clean help
