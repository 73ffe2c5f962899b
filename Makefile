# Silkline. `make` alone prints what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OLD_SCRAPY := .venv-scrapy-2.13
OLD_SCRAPY_STAMP := $(OLD_SCRAPY)/.installed
SCRAPY_REDIS := .venv-scrapy-redis
SCRAPY_REDIS_STAMP := $(SCRAPY_REDIS)/.installed
BETWEEN := 2.14 2.15 2.16 2.17 2.18
BETWEEN_STAMPS := $(BETWEEN:%=.venv-scrapy-%/.installed)
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env demo test check format sync docs screenshots bench chaos faults mutations audit lock clean redis chromium debootstrap

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(STAMP) ## create .venv with everything, exactly as locked

# Debian ships python3 without ensurepip; python3-venv brings it.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get install -y -qq python3-venv || { apt-get update -qq && apt-get install -y -qq python3-venv; }; } >/dev/null; \
	  else \
	    echo "Python cannot create virtual environments here. On Debian or Ubuntu: sudo apt-get install -y python3-venv" >&2; exit 1; \
	  fi; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Silkline needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The oldest Scrapy the plugin promises: its tests run there too.
$(OLD_SCRAPY_STAMP): tests/scrapy/oldest.lock | $(STAMP)
	$(PYTHON) -m venv $(OLD_SCRAPY)
	$(OLD_SCRAPY)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r tests/scrapy/oldest.lock
	@touch $@

# scrapy-redis alone, in a directory for PYTHONPATH: with it, the oldest Scrapy runs projects of scrapy-redis.
$(SCRAPY_REDIS_STAMP): tests/scrapy/scrapy-redis.lock $(OLD_SCRAPY_STAMP)
	rm -rf $(SCRAPY_REDIS)
	$(OLD_SCRAPY)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps --target $(SCRAPY_REDIS) \
	  -r tests/scrapy/scrapy-redis.lock
	@touch $@

# The versions between the oldest and the newest Scrapy: each alone in a directory for PYTHONPATH, before one of these two.
$(BETWEEN_STAMPS): .venv-scrapy-%/.installed: tests/scrapy/between.lock | $(STAMP)
	rm -rf $(@D)
	sed -n '/^scrapy==$*[.]/,/[^\\]$$/p' $< | $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps \
	  --target $(@D) -r /dev/stdin
	@touch $@

demo: $(STAMP) ## crawl a local shop, kill a worker halfway, and show that no item is missing or duplicated
	$(BIN)/silkline demo

# Most tests wait for processes: twice as many at a time as there are cores. The processes start faster if the source is compiled.
test: $(STAMP) $(SCRAPY_REDIS_STAMP) redis chromium ## run all tests (PYTEST_ARGS="-k lease" for some)
	@$(BIN)/python -m compileall -q src tests
	@$(BIN)/python tools/rewrite_tests.py
	$(BIN)/pytest -n $$($(PYTHON) -c 'import os; print(2 * os.cpu_count())') --dist worksteal $(PYTEST_ARGS)

chaos: $(STAMP) $(OLD_SCRAPY_STAMP) $(BETWEEN_STAMPS) redis debootstrap ## run the tests that kill and freeze processes or cut connections, and those marked long
	$(BIN)/pytest tests/chaos tests/servers_matrix $(PYTEST_ARGS)
	$(BIN)/pytest -m long $(PYTEST_ARGS)

faults: $(STAMP) ## crawl while workers, servers and connections fail, and write docs/reference/faults.md (10 minutes)
	$(BIN)/python -m tests.faults --rounds 2 --write

mutations: $(STAMP) ## remove guards from the Lua scripts, one by one, and see that a test fails (COUNT=12 of them, SEED=1)
	$(BIN)/python tools/mutate_scripts.py --count $(or $(COUNT),12) --seed $(or $(SEED),1)

check: $(STAMP) ## check format, lint, types, import rings, and that generated modules are up to date
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_sync.py --check

format: $(STAMP) ## format the source, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sync: $(STAMP) ## write the sync modules, which are generated from the async ones
	$(BIN)/python tools/generate_sync.py

docs: $(STAMP) ## write the reference pages that are generated from the source
	$(BIN)/python docs/generate.py

screenshots: $(STAMP) chromium ## take the screenshots of the dashboard in docs/images
	$(BIN)/python tools/take_screenshots.py

bench: $(STAMP) ## measure every claim of the README
	$(BIN)/python -m benchmarks.run

audit: ## compare requirements.lock with the advisories of PyPI (needs access to pypi.org)
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && .venv-audit/bin/pip install -q --disable-pip-version-check pip-audit; }
	.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip -r requirements.lock

lock: ## resolve the dependencies again into requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip compile pyproject.toml --group dev --all-extras --python-version 3.11 --universal --upgrade \
	  --generate-hashes --no-header --no-emit-index-url --quiet -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml tests/scrapy/oldest.in --python-version 3.11 --universal --upgrade \
	  --generate-hashes --no-header --no-emit-index-url --quiet -o tests/scrapy/oldest.lock
	@rm -f tests/scrapy/between.lock
	for version in $(BETWEEN); do \
	  echo "scrapy==$$version.*" | $(BIN)/uv pip compile - --python-version 3.11 --universal --upgrade --no-deps \
	    --generate-hashes --no-header --no-annotate --no-emit-index-url >>tests/scrapy/between.lock || exit 1; \
	done
	$(BIN)/uv pip compile tests/scrapy/scrapy-redis.in --python-version 3.11 --universal --upgrade --no-deps \
	  --generate-hashes --no-header --no-emit-index-url --quiet -o tests/scrapy/scrapy-redis.lock

clean: ## remove .venv and everything generated (crawl data in .silkline stays)
	rm -rf $(VENV) .venv-scrapy-* .venv-audit build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The tests also use Debian's Redis 7.0 if it is installed. Best effort; its service is never started.
redis:
	@command -v redis-server >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { \
	  policy=/usr/sbin/policy-rc.d; \
	  if [ ! -e $$policy ]; then printf '#!/bin/sh\nexit 101\n' >$$policy; chmod +x $$policy; trap "rm -f $$policy" EXIT; fi; \
	  { apt-get install -y -qq redis-server || { apt-get update -qq && apt-get install -y -qq redis-server; }; } >/dev/null 2>&1 \
	  || echo "redis-server is not installed: the tests that need it are skipped" >&2; }

# A test builds the image of examples/deploy in a bare Debian tree. Best effort, as root only: so is the test.
debootstrap:
	@command -v debootstrap >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { \
	  install='apt-get install -y -qq --no-install-recommends debootstrap'; \
	  { $$install || { apt-get update -qq && $$install; }; } >/dev/null 2>&1 \
	  || echo "debootstrap is not installed: the test that needs it is skipped" >&2; }

# The tests open the dashboard in Debian's Chromium. Best effort too.
chromium:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { \
	  install='apt-get install -y -qq --no-install-recommends chromium'; \
	  { $$install || { apt-get update -qq && $$install; }; } >/dev/null 2>&1 \
	  || echo "chromium is not installed: the tests that need it are skipped" >&2; }
