#!/usr/bin/env bash
# The documentation as a site, out/site, in an environment of its own, .venv-docs. Nothing is fetched but the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-docs/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-docs
"$python" -m pip install --quiet --disable-pip-version-check --constraint constraints-docs.txt --editable '.[docs]'
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --clean --quiet
echo "docs: out/site/index.html"
