#!/usr/bin/env bash
# A part of the tests on Python 3.13, in the environment .venv-newest; a line says so where there is no Python 3.13.
set -euo pipefail
cd "$(dirname "$0")/.."
newest=$(command -v python3.13 || true)
for each in "$newest" "$HOME"/.pyenv/versions/3.13.*/bin/python3.13; do
    "$each" -c 'import venv' 2>/dev/null && newest=$each && break || newest=
done
if [ -z "$newest" ]; then
    echo "test_newest: NOT RUN, there is no Python 3.13 here"
    exit 0
fi
[ -x .venv-newest/bin/python ] || "$newest" -m venv .venv-newest
.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
    --editable '.[video,gemini,openai,anthropic,glance,figures,web,build,parquet,logs]' \
    hypothesis pytest pytest-socket pytest-timeout cryptography jsonschema
.venv-newest/bin/python -m pytest -q -p no:cacheprovider --timeout 600 tests/core tests/records tests/ves tests/benches \
    tests/test_observer.py "$@"
