#!/usr/bin/env bash
# Build the documentation site to out/site, in its own environment, .venv-docs. Only packages are downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

install .venv-docs --constraint constraints-docs.txt --editable '.[docs]'
NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --clean
echo "docs: out/site/index.html"
