# Two commands for a fresh machine: `make demo` and `make test`. Each sets up all it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One BLAS thread: small matrices get slower with more.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: help demo test test-slow test-checked test-sanitized check lint types contracts bench bench-docs paper beyond reproduction clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    run the main job on built-in data and name the page it wrote"
	@echo "make test    all tests that take less than minutes"
	@echo "make check   what CI runs: lint, types, import contracts, docs examples, tests"
	@echo "make bench   speed, as ratios within one run (make bench BENCH=--quick for a minute's worth)"
	@echo "make beyond  romco-auto against everything tuned in hindsight, into docs/beyond-the-paper.md"
	@echo "make paper   every table and figure of the paper, measured, into docs/paper"
	@echo "make reproduction   what the paper leaves open, measured, into docs/reproduction.md"

# Rebuilt whenever a kernel or the metadata changes.
SOURCES := $(wildcard src/romco/kernels/*.p[yx]* src/romco/kernels/*/*.p[yx]*) pyproject.toml setup.py
$(VENV)/ready: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/romco compare

test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2

test-slow: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 -m slow

# The same tests on a build whose kernels check every index.
test-checked:
	$(PYTHON) -m venv .venv-checked
	ROMCO_CHECKED=1 .venv-checked/bin/python -m pip install --quiet --force-reinstall --no-deps --no-cache-dir .
	.venv-checked/bin/python -m pip install --quiet '.[dev]'
	.venv-checked/bin/python -m pytest -n 2 tests

# The tests of all that is compiled, on a build that catches reads and writes outside of an array.
test-sanitized:
	$(PYTHON) -m venv .venv-sanitized
	CFLAGS="-fsanitize=address -g -O1" LDFLAGS=-fsanitize=address .venv-sanitized/bin/python -m pip install --quiet --force-reinstall --no-deps --no-cache-dir .
	.venv-sanitized/bin/python -m pip install --quiet '.[dev]'
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc .venv-sanitized/bin/python -m pytest -n 2 tests/kernels tests/learners tests/model tests/test_checks.py tests/test_modelfile.py

check: lint types contracts test

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy

contracts: $(VENV)/ready
	$(BIN)/lint-imports

# Vowpal Wabbit has no wheel for every machine; without it the rest still runs.
$(VENV)/bench: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench,peers]' \
	  || $(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	touch $@

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks $(BENCH)

# Puts the tables of the last run into the documentation.
bench-docs: $(VENV)/bench
	$(BIN)/python -m benchmarks --docs

# The report of the last run goes into docs/paper.
paper: $(VENV)/ready
	$(BIN)/romco paper all --out results/paper
	mkdir -p docs/paper/figures
	cp results/paper/report.md docs/paper/README.md
	cp results/paper/summary.csv results/paper/tuning.csv results/paper/tables.tex docs/paper/
	cp results/paper/figures/*.png docs/paper/figures/

# romco-auto against everything tuned in hindsight: docs/beyond-the-paper.md.
beyond: $(VENV)/ready
	$(BIN)/romco beyond

# What the paper leaves open, measured: docs/reproduction.md.
reproduction: $(VENV)/ready
	$(BIN)/romco paper all --choices --shuffles 5 --trials 8 --out results/choices
	cp results/choices/reproduction.md docs/reproduction.md

clean:
	rm -rf $(VENV) .venv-checked .venv-sanitized build results .mypy_cache .pytest_cache .ruff_cache .hypothesis
