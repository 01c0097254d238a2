.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test oracle-spark lint bench docs asan fuzz clean help
.DEFAULT_GOAL := help

PYTHON ?= python3
EXTRAS ?= dev arrow inspector remote
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE := $(wildcard kafkalog inspector pyspark_kafkalog)
# The directories too: a file that goes leaves no other trace.
SOURCES := $(shell find $(CODE) -name __pycache__ -prune -o \( -type d -o -name '*.py' -o -name '*.py[ix]' -o -name '*.pxd' -o -name '*.tcss' \) -print)
KERNELS := $(basename $(filter %.pyx,$(SOURCES)))
# Before a build, all goes that an earlier one left but the compiled modules: a wheel would still hold what the tree has lost.
SWEEP = for lib in build/lib* build/asan/lib; do [ ! -d $$lib ] || find $$lib -type f $(KERNELS:%=! -path '*/%.*.so') -delete; done
REQUIREMENTS = import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["dependencies"], *project["optional-dependencies"][sys.argv[1]], sep="\n")
SANITIZE := -fsanitize=address -fno-omit-frame-pointer -g -O1
PRELOAD = $(foreach lib,libasan.so libstdc++.so.6,$(shell $(CC) -print-file-name=$(lib)))

# python -P: the installed package is meant, not the tree, which holds no compiled modules.

demo: $(VENV)/installed ## the command at work on logs that real brokers wrote
	$(BIN)/python -P -m kafkalog.cli.demo tests/data

test: $(VENV)/installed ## the tests; ARGS="-k varint" chooses
	$(BIN)/pytest -n 2 --dist loadgroup -q $(ARGS)

oracle-spark: $(VENV)/installed ## format("kafkalog") beside Spark's own Kafka source; fetches pyspark 4.0, 455 MB
	$(BIN)/python tests/oracle/spark_environment.py
	$(BIN)/pytest -q tests/oracle/test_spark_source.py $(ARGS)

lint: $(VENV)/installed ## style, types, stubs, layers, spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint $(filter %.pyx %.pxd,$(SOURCES))
	$(BIN)/mypy --strict $(CODE)
	@# __buffer__ is seen from Python 3.12 on only.
	printf '.*\.__pyx_capi__\n.*\.__buffer__\n' | $(BIN)/python -P -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist /dev/stdin --ignore-unused-allowlist \
		$(subst /,.,$(KERNELS))
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(VENV)/installed $(VENV)/with-bench ## kafkalog beside its peers
	$(BIN)/python asv_bench/peers.py $(ARGS)

docs: $(VENV)/installed $(VENV)/with-docs ## the pages, in build/docs
	$(BIN)/python -P -m sphinx -W -q docs build/docs

asan: $(VENV)/installed ## the quick tests, on kernels built with the address sanitizer
	@$(SWEEP)
	CFLAGS="$(SANITIZE)" LDFLAGS=-fsanitize=address \
		$(BIN)/python setup.py --quiet build --build-base build/asan --build-lib build/asan/lib
	LD_PRELOAD="$(PRELOAD)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/build/asan/lib \
		$(BIN)/pytest -q --capture=sys -m "not slow and not oracle and not spark" $(ARGS)

fuzz: $(VENV)/installed ## damaged bytes until something gives; ARGS="-h"
	$(BIN)/python tests/fuzz/fuzz_decode.py $(ARGS)

clean: ## back to a fresh clone
	rm -rf $(VENV) build dist *.egg-info .hypothesis .*_cache
	find $(CODE) tests -name __pycache__ -prune -exec rm -rf {} +

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/with-%: pyproject.toml | $(VENV)/pyvenv.cfg
	@$(BIN)/python -c '$(REQUIREMENTS)' $* > $@.txt
	$(PIP) install -r $@.txt
	@touch $@

# Other flags: nothing compiled before is of use.
build/setup.py: setup.py
	rm -rf build/cython build/lib* build/temp* build/asan
	mkdir -p build && cp $< $@

$(VENV)/installed: build/setup.py $(EXTRAS:%=$(VENV)/with-%) $(SOURCES) MANIFEST.in
	@$(SWEEP)
	$(PIP) install --no-build-isolation --no-deps .
	@# The tree too: whoever starts Python in it imports from it.
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@
