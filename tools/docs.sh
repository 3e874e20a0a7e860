#!/usr/bin/env bash
# Build the documentation site to out/site, in its own environment, .venv-docs. Only packages are downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-docs/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-docs
"$python" -m pip install --quiet --disable-pip-version-check --constraint constraints-docs.txt --editable '.[docs]'
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --clean
echo "docs: out/site/index.html"
