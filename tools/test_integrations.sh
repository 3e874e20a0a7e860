#!/usr/bin/env bash
# Tests with other people's packages, in separate environments: .venv-integrations, and with LMMS_EVAL=1 also
# .venv-lmms-eval. lmms-eval 0.7.3 needs PyAV below 16, so it is installed beside trace-ves without the extra `video`.
set -euo pipefail
cd "$(dirname "$0")/.."

install() { # FOLDER ARGUMENT…: make a virtual environment and install into it
    local python="$1/bin/python"
    [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$1"
    "$python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}

if [ -n "${LMMS_EVAL:-}" ]; then
    install .venv-lmms-eval 'lmms-eval==0.7.3' . hypothesis pytest pytest-socket
    .venv-lmms-eval/bin/python -m pytest tests/integrations/test_lmms_eval.py
fi
install .venv-integrations --constraint constraints-integrations.txt \
    --requirement tests/integrations/requirements.txt --editable '.[video,glance]'
.venv-integrations/bin/python -m pytest tests/integrations "$@"
