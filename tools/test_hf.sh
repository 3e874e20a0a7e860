#!/usr/bin/env bash
# The tests of local models, in a separate environment, .venv-hf, because torch is large.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

install .venv-hf --constraint constraints-hf.txt --requirement tests/backbone/hf/requirements.txt --editable '.[video,openai]'
.venv-hf/bin/python -m pytest tests/backbone/hf
