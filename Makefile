# make demo: set up and run the main job on the bundled runs. make test: set up and pass the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test bench bench-replay docs lint check

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(VENV)/.ready
	@BIN=$(BIN) sh tests/data/demo/demo.sh

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2

# BENCH_ARGS: --mb 1000, --drain-python PATH, or the inputs to run (sglang vllm trace json small).
bench: $(VENV)/.ready
	$(BIN)/python benchmarks/speed.py $(BENCH_ARGS)

# Every figure of docs/recommender.md again, from committed data.
bench-replay: $(VENV)/.ready
	$(BIN)/python benchmarks/bench_replay.py
	$(BIN)/python benchmarks/recommender_page.py

docs: $(VENV)/.ready
	$(BIN)/python -m ingest.formats_page > docs/.formats.md && mv docs/.formats.md docs/formats.md

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test
