#!/usr/bin/env bash
# Tests with other people's packages, in separate environments: .venv-integrations, and with LMMS_EVAL=1 also
# .venv-lmms-eval, which takes 2.5 GB and minutes. lmms-eval 0.7.3 needs PyAV below 16, so it is installed beside
# trace-ves without the extra `video`. torch is pinned to the version whose CPU build the tests of local models use.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

if [ -n "${LMMS_EVAL:-}" ]; then
    install .venv-lmms-eval 'lmms-eval==0.7.3' . 'torch==2.13.0' hypothesis pytest pytest-socket
    # torchvision's wheels do not load beside a build of torch for the CPU, and the model `dummy` does not need them.
    .venv-lmms-eval/bin/python -m pip uninstall --quiet --yes torchvision
    .venv-lmms-eval/bin/python -m pytest tests/integrations/test_lmms_eval.py
fi
install .venv-integrations --constraint constraints-integrations.txt \
    --requirement tests/integrations/requirements.txt --editable '.[video,glance,web]' torch==2.13.0 torchcodec==0.13.0
.venv-integrations/bin/python -m pytest tests/integrations "$@"
