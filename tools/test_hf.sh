#!/usr/bin/env bash
# The tests of local models, in an environment of their own, .venv-hf, because torch is large.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-hf/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-hf
"$python" -m pip install --quiet --disable-pip-version-check --constraint constraints-hf.txt \
    --requirement tests/backbone/hf/requirements.txt --editable '.[video,openai]'
"$python" -m pytest tests/backbone/hf
