#!/usr/bin/env bash
# The core tests on the lowest versions that pyproject.toml allows, in an environment of their own, .venv-lowest.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-lowest/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-lowest
"${PYTHON:-python3}" tools/lowest.py >.venv-lowest/constraints.txt
"$python" -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/constraints.txt \
    --editable '.[video,gemini,openai,anthropic,glance,figures,web,build,parquet,logs]' \
    'httpx>=0.28.1,<1' 'hypothesis>=6.120' 'pytest>=8.3' 'pytest-socket>=0.7' 'cryptography' 'jsonschema>=4.20'
"$python" -m pytest -q -p no:cacheprovider tests/core tests/records --ignore tests/records/test_schemas.py tests/ves tests/benches tests/test_observer.py \
    tests/backbone --ignore tests/backbone/hf --ignore tests/twin/glance "$@"
