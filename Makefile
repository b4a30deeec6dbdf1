# Two commands for a fresh machine: `make demo` and `make test`. Each sets up all it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One BLAS thread: small matrices get slower with more.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
# Tests start Python a hundred times: imports take half the time where compiled modules are kept.
unexport PYTHONDONTWRITEBYTECODE
# All tests of a file run in one process, so that what they share is made once. The order is random:
# `pytest --randomly-seed=N` repeats the one whose seed was printed.
WORKERS := -n 2 --dist loadfile
# Where tests and reports find real data, if there are any.
ROMCO_DATA ?= $(realpath ../shared/data)
export ROMCO_DATA

.PHONY: help demo serve-demo test test-core test-slow test-exports test-checked test-sanitized test-standard-c test-busy test-x86_64 fuzz fuzz-sanitized mutants kernels check check-all docs lint types contracts \
        dist dist-smoke bench bench-docs paper paper-docs beyond cluster-demo clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       run the main job on built-in data and name the page it wrote"
	@echo "make test       all tests but the slow ones"
	@echo "make test-core  learners, kernels, model, evaluation, label policies: a minute"
	@echo "make check      what CI runs: lint, types, import contracts, docs examples, tests, a wheel that works"
	@echo "make check-all  also: slow tests, checked indices, sanitizers, the suite from the sdist"
	@echo "make kernels    rebuild the compiled kernels that changed"
	@echo "make docs       the documentation as a site, in site/"
	@echo "make dist       sdist and wheel, each tried in a fresh environment"
	@echo "make mutants    whether the tests notice changes to the files that guard data"
	@echo "make bench      speed, as ratios within one run (make bench BENCH=--quick for a minute's worth)"
	@echo "make beyond     romco-auto against everything tuned in hindsight, into docs/beyond/report.md"
	@echo "make paper      every table and figure of the paper and what it leaves open, measured, into docs"
	@echo "make cluster-demo   four shards on a local Ray lose a worker, and not a bit"

# Rebuilt whenever a kernel or the metadata changes. Versions are those that were tried together.
# Kernels are built in place and without isolation, so that unchanged ones are never compiled again.
SOURCES := $(wildcard src/romco/kernels/*.p[yx]* src/romco/kernels/*/*.p[yx]*) pyproject.toml setup.py
INSTALL := -m pip install --quiet --constraint constraints.txt
EDITABLE := --no-build-isolation --editable
# What `romco compare` needs, and no more; Python compiles the modules it imports when it does.
$(VENV)/cli: $(SOURCES) constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --no-compile 'setuptools>=77' 'cython>=3.1' numpy scipy
	$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python $(INSTALL) --no-compile $(EDITABLE) '.[terminal]'
	touch $@

# What tests, checks and reports need; the lab adds `romco paper` and `romco beyond`.
$(VENV)/ready: $(VENV)/cli lab/pyproject.toml
	$(BIN)/python $(INSTALL) $(EDITABLE) '.[dev]' $(EDITABLE) ./lab
	touch $@

demo: $(VENV)/cli
	$(BIN)/romco compare

# A server is killed half-way, and its model compared with one that was never interrupted.
serve-demo: $(VENV)/ready
	$(BIN)/python -m romco_lab.server_demo

test: $(VENV)/ready
	$(BIN)/python -m pytest $(WORKERS)

# The same beside a process that never rests: no test may depend on how fast the machine is.
test-busy: $(VENV)/ready
	$(BIN)/python -c 'while True: pass' & busy=$$!; trap "kill $$busy" EXIT; $(BIN)/python -m pytest $(WORKERS)

test-slow: $(VENV)/ready
	$(BIN)/python -m pytest $(WORKERS) -m slow

# Learners, kernels, model, evaluation and label policies: what most changes touch.
test-core: $(VENV)/ready
	$(BIN)/python -m pytest $(WORKERS) tests/learners tests/kernels tests/model tests/evaluation tests/labels

# How far exports are from the model in each engine: 10,000 events, the largest difference of each test.
test-exports: $(VENV)/ready
	$(BIN)/python -m pytest tests/exporting -m "" -k 10000 -sv

kernels: $(VENV)/cli
	$(BIN)/python setup.py --quiet build_ext --inplace

# Kernels of another kind are compiled from a copy of the sources: beside them there may be what was
# compiled before, which pip would take. That they are of that kind is looked for in what was installed.
COPIED = setup.py pyproject.toml MANIFEST.in README.md LICENSE src
define copy
	rm -rf build/$(1) && mkdir -p build/$(1)
	tar -c --exclude='*.c' --exclude='*.so' --exclude=__pycache__ $(COPIED) | tar -x -C build/$(1)
endef

# The same tests on a build whose kernels check every index.
test-checked:
	$(PYTHON) -m venv .venv-checked
	$(call copy,checked)
	ROMCO_CHECKED=1 .venv-checked/bin/python $(INSTALL) './build/checked[dev]'
	grep -q 'Out of bounds' .venv-checked/lib/python*/site-packages/romco/kernels/romco/basis.*.so
	.venv-checked/bin/python -m pytest $(WORKERS) tests

# The tests of all that is compiled, on a build that catches reads and writes outside of an array
# and what C leaves undefined; but no bytes may be copied from nowhere, as C2y has it.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=nonnull-attribute
SANITIZED = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
            ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc .venv-sanitized/bin/python
.venv-sanitized/ready: $(SOURCES)
	$(PYTHON) -m venv .venv-sanitized
	$(call copy,sanitized)
	CFLAGS="$(SANITIZE) -g" LDFLAGS="$(SANITIZE)" .venv-sanitized/bin/python $(INSTALL) './build/sanitized[dev]'
	grep -q __asan .venv-sanitized/lib/python*/site-packages/romco/kernels/romco/basis.*.so
	touch $@

test-sanitized: .venv-sanitized/ready
	$(SANITIZED) -m pytest $(WORKERS) tests/kernels tests/learners tests/model tests/test_checks.py tests/io/test_modelfile.py

# The tests of all that is compiled, on a build that uses nothing but standard C, as MSVC must.
STANDARD_C := -std=c11 -pedantic-errors -Wno-overlength-strings -DROMCO_STANDARD_C
test-standard-c:
	$(PYTHON) -m venv .venv-standard-c
	$(call copy,standard-c)
	CC=clang CFLAGS="$(STANDARD_C)" .venv-standard-c/bin/python $(INSTALL) './build/standard-c[dev]'
	.venv-standard-c/bin/python -m pytest $(WORKERS) tests/kernels tests/learners tests/model tests/test_checks.py tests/io/test_modelfile.py

# Hot loops that are compiled for several x86_64 processors, each run by itself; elsewhere in an emulator.
test-x86_64: $(VENV)/ready
	$(BIN)/python -m pytest -rs tests/kernels/test_products.py

check: lint types contracts docs test dist-smoke

# Files, rows and sources that mean harm, made with knowledge of the format: FUZZ="--files 1000 --seed 7".
fuzz: $(VENV)/ready
	$(BIN)/python -m romco_lab.fuzz $(FUZZ)

fuzz-sanitized: .venv-sanitized/ready
	$(SANITIZED) -m romco_lab.fuzz --unlimited --files 4000 --strangers 4000 --liars 4000 --arrays 4000 --folders 200 --sources 20 --memories 20 --requests 4000 $(FUZZ)

# Changes to the files that guard data, which some test must notice: MUTANTS="--share 1", "--only durable.py", "--compiled".
mutants: $(VENV)/ready
	$(BIN)/python -m romco_lab.mutants $(MUTANTS)

check-all: check test-slow test-checked test-sanitized dist

# The documentation as a site, in site/; a broken link or reference is an error.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

# Also whether the stubs of compiled kernels are true; what no other module uses need not be in them.
STUBS = $(subst /,.,$(patsubst src/%.pyi,%,$(wildcard src/romco/kernels/*.pyi src/romco/kernels/*/*.pyi)))
types: $(VENV)/ready
	$(BIN)/mypy
	$(BIN)/stubtest --concise --ignore-missing-stub --ignore-disjoint-bases --allowlist tests/stubtest-allowlist.txt $(STUBS)

contracts: $(VENV)/ready
	$(BIN)/lint-imports

# An sdist and a wheel, tried in fresh environments outside of the checkout.
dist: $(VENV)/ready
	BIN=$(BIN) PYTHON=$(PYTHON) .ci/dist all

dist-smoke: $(VENV)/ready
	BIN=$(BIN) PYTHON=$(PYTHON) .ci/dist smoke

# Vowpal Wabbit has no wheel for every machine; without it the rest still runs.
$(VENV)/bench: $(VENV)/ready
	$(BIN)/python $(INSTALL) --editable '.[dev,bench,peers]' \
	  || $(BIN)/python $(INSTALL) --editable '.[dev,bench]'
	touch $@

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks $(BENCH)

# Puts the tables of the last run into the documentation.
bench-docs: $(VENV)/bench
	$(BIN)/python -m benchmarks --docs

# The report of the last run goes into docs/paper.
paper: $(VENV)/ready
	$(BIN)/romco paper all --out results/paper
	$(MAKE) --no-print-directory paper-docs

# Puts the last run into the documentation.
paper-docs:
	mkdir -p docs/paper/figures
	cd results/paper && cp README.md fair.md claims.md tables.md figures.md settings.md \
	  summary.csv tuning.csv tables.tex $(CURDIR)/docs/paper/
	cp results/paper/reproduction.md docs/reproduction.md
	cp results/paper/figures/*.png docs/paper/figures/

# romco-auto against everything tuned in hindsight: docs/beyond/report.md.
beyond: $(VENV)/ready
	$(BIN)/romco beyond

# Learns a stream of 100,000 tasks on a local Ray, kills a worker half-way, compares the model files.
cluster-demo: $(VENV)/ready
	$(BIN)/python -m benchmarks.scaling demo

clean:
	rm -rf $(VENV) .venv-checked .venv-sanitized .venv-standard-c build dist site results .mypy_cache .pytest_cache .ruff_cache .hypothesis
