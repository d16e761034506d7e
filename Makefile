# Each target sets up what it needs in .venv; the stamps make the second run quick.
.DEFAULT_GOAL := help
.PHONY: help install run test chaos check bench judge docs

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/.dev ## Make .venv with comity and everything needed to work on it

run: .venv/.base ## Send the sample, 300 requests under two limits, to a server on this machine
	@scripts/run

test: .venv/.dev ## Run the tests with coverage
	@scripts/test

chaos: .venv/.dev ## Kill a service's processes 100 times on each store and look at its books
	@COMITY_KILLS=100 scripts/test tests/service/test_kills.py -q

check: .venv/.dev ## Lint, types, import contracts, generated docs, the wheel
	@scripts/check

bench: .venv/.bench ## Measure comity beside its peers
	@.venv/bin/python benchmarks/run.py

judge: .venv/.base ## Score adaptive control by the judge that COMITY_JUDGE names
	@.venv/bin/python benchmarks/judge.py

docs: .venv/.dev ## Write the generated documents again
	@scripts/docs

.venv/.base .venv/.dev .venv/.bench: pyproject.toml scripts/install
	@scripts/install $(subst .venv/.,,$@)
