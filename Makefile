PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
SECONDS ?= 60
STAMP  := $(VENV)/.installed

.PHONY: demo test slow coverage campaign fuzz lint figures tables bench docs wheel clean

demo: $(STAMP)
	$(BIN)/garnet demo

# One thread each: threads of several processes would wait for one another.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

coverage: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --cov --cov-report=json:.coverage.json
	$(BIN)/python -m tools.coverage_record .coverage.json "make coverage"
	$(BIN)/python -m tools.tables

campaign: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/campaign.py -n auto --maxprocesses 4 --dist load

# Changes valid files at random and reads them; by coverage where atheris is installed.
fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/fuzz_readers.py --seconds $(SECONDS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.tables --check
	$(BIN)/python -m tools.import_graph --check

# Both write into the pages what the records in results/ say; the second also draws the rooms as they import.
figures: $(STAMP)
	$(BIN)/python -m tools.figures --overwrite

tables: $(STAMP)
	$(BIN)/python -m tools.tables
	$(BIN)/python -m tools.import_graph

bench: $(STAMP)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[benchmarks]'
	$(BIN)/python benchmarks/recipe.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/ledger.py

docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html

wheel: $(STAMP)
	$(BIN)/python -m build --wheel

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
