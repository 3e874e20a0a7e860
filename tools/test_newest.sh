#!/usr/bin/env bash
# A part of the tests on Python 3.13, in the environment .venv-newest; a line says so where there is no Python 3.13.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

for PYTHON in "$(command -v python3.13 || true)" "$HOME"/.pyenv/versions/3.13.*/bin/python3.13; do
    "$PYTHON" -c 'import venv' 2>/dev/null && break || PYTHON=
done
if [ -z "$PYTHON" ]; then
    echo "test_newest: NOT RUN, there is no Python 3.13 here"
    exit 0
fi
install .venv-newest --constraint constraints.txt \
    --editable '.[video,gemini,openai,anthropic,glance,figures,web,build,parquet,logs]' \
    hypothesis pytest pytest-socket pytest-timeout pytest-xdist cryptography jsonschema
.venv-newest/bin/python -m pytest -q -p no:cacheprovider -n 2 --dist loadfile --timeout 600 \
    tests/core tests/records tests/benches tests/test_observer.py "$@"
