#!/usr/bin/env bash
# The tests of integrations with other people's packages, in an environment of their own, .venv-integrations.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-integrations/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-integrations
"$python" -m pip install --quiet --disable-pip-version-check --constraint constraints-integrations.txt \
    --requirement tests/integrations/requirements.txt --editable '.[video,glance]'
"$python" -m pytest tests/integrations "$@"
