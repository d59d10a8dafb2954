# `make help` lists the targets. Everything is made inside this folder: .venv, .devstack (jars, LocalStack) and .state.
.DEFAULT_GOAL := help
.PHONY: help setup run demo test check bench clean-state lock status down

# setup.py itself looks for Python 3.13; any python3 can tell what is missing.
PYTHON ?= python3
MASSCOMM := .venv/bin/python -m devstack.cli

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## check the prerequisites, make the environments, fetch the jars; only what changed
	@$(PYTHON) devstack/setup.py

run: setup ## start everything, run the demo, stay up until Ctrl-C
	@$(MASSCOMM) up --demo

demo: setup ## start everything, run the demo, stop; fails on any mismatch
	@$(MASSCOMM) up --demo --exit

check: setup ## lint, format, types, layers
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

test: check ## every check and every test, servers included
	.venv/bin/python -m pytest -n 2 --dist loadfile

bench: setup ## what a recipient costs, from a thousand to a million
	.venv/bin/python -m benchmarks.recipients

status: ## what runs
	@$(MASSCOMM) status

down: ## stop what runs
	@$(MASSCOMM) down

clean-state: ## forget everything the stack has stored
	@$(MASSCOMM) clean-state

lock: setup ## compile the requirements to hashed lock files
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/bootstrap.in -o requirements/bootstrap.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/main.in -o requirements/main.txt
	.devstack/uv/bin/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.13 requirements/localstack.in -o requirements/localstack.txt
