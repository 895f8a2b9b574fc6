# Each target makes what it needs. Nothing but Python 3.11 or later and make is expected.
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
PYTEST_ARGS ?=

.PHONY: demo test check lock clean

demo: .venv/ready
	$(BIN)/python -m demo

test: .venv/ready .venv/extras
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The locks are whole, so nothing is to be resolved: an older pip would look for newer versions beside them, and refuse.
.venv/ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and none was found on the PATH."; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || \
		{ echo "Python's venv module is missing. On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

# osxphotos and adbutils, Dask and prefect-redis, so that the tests of what is optional run; without them they are skipped.
.venv/extras: .venv/ready requirements-extras.lock
	@if $(BIN)/python -c 'import sys; sys.exit((sys.platform, *sys.version_info[:2]) != ("linux", 3, 11))'; then \
		$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-extras.lock; \
	else echo "The tests of Apple Photos, Android and several machines need Python 3.11 on Linux and are skipped."; fi
	@touch $@

# Versions and hashes for every platform and Python that we support; no address of any index.
lock:
	$(PYTHON) -m venv .venv/lock && .venv/lock/bin/pip install --quiet uv
	.venv/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate requirements.in -o requirements.lock
	.venv/lock/bin/uv pip compile --quiet --upgrade --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
		-c requirements.lock --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
		requirements-extras.in -o requirements-extras.lock

clean:
	rm -rf .venv
